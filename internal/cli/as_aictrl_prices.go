package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/sluice-dev/sluice/internal/plain"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/wire"
)

// aictrlModelsLimit is how large a file of models may be. That of all models is a few megabytes.
const aictrlModelsLimit = 64 << 20

// aictrlPrices looks models up in a file in the form of models.dev. One that cannot be read is told, once, and our own table
// is as good as it was.
func aictrlPrices(complaints io.Writer, path string) func(prov, model string) (provider.Price, bool) {
	if path == "" {
		return nil
	}
	read := sync.OnceValue(func() *wire.Doc {
		doc, err := readModels(path)
		if err != nil {
			fmt.Fprintf(complaints, "sluice: AICTRL_MODELS_PATH is left alone: %s: %v\n", plain.Name(path), err)
		}
		return doc
	})
	return func(prov, model string) (provider.Price, bool) {
		return modelPrice(read().Root(), prov, model)
	}
}

// readModels reads a file of models. The document is empty if there is an error.
func readModels(path string) (*wire.Doc, error) {
	doc := &wire.Doc{}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		return doc, err
	}
	root, err := os.OpenRoot(filepath.Dir(real))
	if err != nil {
		return doc, err
	}
	defer root.Close()
	data, err := plain.Read(root, filepath.Base(real), aictrlModelsLimit)
	if err != nil {
		return doc, err
	}
	if err := doc.Parse(data); err != nil || doc.Root().Kind() != wire.Object {
		return &wire.Doc{}, errors.New("it is not a JSON object")
	}
	return doc, nil
}

// modelsNames are what models.dev calls providers that have another name here.
var modelsNames = map[string]string{
	"openai-responses": "openai", "bedrock": "amazon-bedrock", "vertex": "google-vertex-anthropic", "gemini": "google",
}

// modelPrice is what a file of models says of one. What it does not say is not known, but for the price of what is written to the
// cache or read from it, which is that of the input; where it has no prices at all, our table may have some.
func modelPrice(root wire.Node, prov, model string) (provider.Price, bool) {
	m := root.Get(prov).Get("models").Get(model)
	if other := modelsNames[prov]; m.Kind() != wire.Object && other != "" {
		m = root.Get(other).Get("models").Get(model)
	}
	if m.Kind() != wire.Object {
		return provider.Price{}, false
	}
	p, priced := modelRates(m.Get("cost"))
	if !priced {
		p, _ = provider.Lookup(prov, model)
	}
	if long, ok := modelRates(m.Get("cost").Get("context_over_200k")); ok {
		p = p.Above(200_000, long)
	}
	p.Window = 0
	if n, ok := m.Get("limit").Get("context").Int(); ok && n > 0 {
		p.Window = n
	}
	return p, true
}

// modelRates reads prices; there are none without one for the input and one for the output.
func modelRates(cost wire.Node) (p provider.Price, ok bool) {
	rate := func(name string, otherwise float64) float64 {
		if v, ok := cost.Get(name).Float(); ok && v >= 0 {
			return v
		}
		return otherwise
	}
	const none = -1
	p.Input, p.Output = rate("input", none), rate("output", none)
	if p.Input == none || p.Output == none {
		return provider.Price{}, false
	}
	p.CacheRead, p.CacheWrite = rate("cache_read", p.Input), rate("cache_write", p.Input)
	p.Reasoning = rate("reasoning", 0)
	return p, true
}
