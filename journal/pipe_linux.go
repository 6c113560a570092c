package journal

import (
	"context"
	"io"
	"os"
	"syscall"
	"time"
)

// openPipe opens a file that is not a regular one. Reading it ends when ctx does.
func openPipe(ctx context.Context, path string) (io.ReadCloser, error) {
	// Without O_NONBLOCK, opening a pipe waits for its other end, and nothing can stop it.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) })
	return &pipe{file: file, stop: stop}, nil
}

type pipe struct {
	file *os.File
	stop func() bool
	met  bool // the other end was there
}

// Read reads. A pipe that nobody has opened for writing yet looks as if it had ended; it is waited for.
func (p *pipe) Read(b []byte) (n int, err error) {
	if p.met {
		return p.file.Read(b)
	}
	conn, err := p.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	calls := 0
	wait := conn.Read(func(fd uintptr) bool {
		calls++
		for {
			if n, err = syscall.Read(int(fd), b); err != syscall.EINTR {
				break
			}
		}
		return err != syscall.EAGAIN && (n != 0 || calls > 1)
	})
	p.met = true
	switch {
	case wait != nil && calls > 0 && n == 0 && err == nil && !os.IsTimeout(wait):
		return 0, io.EOF // of a kind that cannot be waited for, like /dev/null
	case wait != nil:
		return 0, wait
	case err != nil:
		return 0, &os.PathError{Op: "read", Path: p.file.Name(), Err: err}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (p *pipe) Close() error {
	p.stop()
	return p.file.Close()
}
