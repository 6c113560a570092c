// Outcome prints how the run on stdin ended, in whichever dialect it was told.
package main

import (
	"fmt"
	"os"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

func main() {
	for e, err := range dialect.ReadAny(os.Stdin) {
		if err != nil {
			fmt.Println(err)
		} else if end, ok := event.AsRunEnd(e.Body); ok {
			fmt.Printf("%s %q\n", end.Outcome, end.Reason)
		}
	}
}
