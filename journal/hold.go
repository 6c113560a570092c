package journal

import (
	"fmt"
	"os"
)

// Hold keeps others from writing a journal until release is called, and writes nothing itself. The error is [ErrLocked] if
// somebody writes it now.
func Hold(path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	unlock, err := lock(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return func() {
		unlock()
		file.Close()
	}, nil
}
