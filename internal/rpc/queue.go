package rpc

import (
	"context"
	"io"
	"sync"
)

// A queue holds lines until they are written, by one goroutine.
type queue struct {
	mu      sync.Mutex
	lines   [][]byte
	put     int64         // bytes, in all
	written int64         // of them
	err     error         // why nothing is written any more
	more    chan struct{} // a line was put
	less    chan struct{} // closed when something was written, and made anew
	broken  chan struct{} // closed with err
}

func (q *queue) init() {
	q.more = make(chan struct{}, 1)
	q.less = make(chan struct{})
	q.broken = make(chan struct{})
}

// add puts a line at the end, and returns where the queue ends now.
func (q *queue) add(line []byte) (end int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return 0, q.err
	}
	q.lines = append(q.lines, line)
	q.put += int64(len(line))
	select {
	case q.more <- struct{}{}:
	default:
	}
	return q.put, nil
}

func (q *queue) end() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.put
}

func (q *queue) error() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// wait returns when so much has been written.
func (q *queue) wait(ctx context.Context, until int64) error {
	for {
		q.mu.Lock()
		written, err, less := q.written, q.err, q.less
		q.mu.Unlock()
		if written >= until {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-less:
		case <-q.broken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain writes what is added until the connection is closed.
func (q *queue) drain(w io.Writer, closed <-chan struct{}) {
	for {
		select {
		case <-q.more:
		case <-closed:
			return
		}
		q.mu.Lock()
		lines := q.lines
		q.lines = nil
		q.mu.Unlock()
		for _, line := range lines {
			if _, err := w.Write(line); err != nil {
				q.fail(err)
				return
			}
			q.mu.Lock()
			q.written += int64(len(line))
			close(q.less)
			q.less = make(chan struct{})
			q.mu.Unlock()
		}
	}
}

// fail ends the queue. The first reason stands.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err, q.lines = err, nil
		close(q.broken)
	}
}
