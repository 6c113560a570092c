//go:build !linux

package journal

import (
	"context"
	"io"
	"os"
	"time"
)

// openPipe opens a file that is not a regular one. Where the system cannot interrupt a read, the end of ctx is seen when the
// next bytes come.
func openPipe(ctx context.Context, path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) })
	return &pipe{file, stop}, nil
}

type pipe struct {
	*os.File
	stop func() bool
}

func (p *pipe) Close() error {
	p.stop()
	return p.File.Close()
}
