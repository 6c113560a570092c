package control

import (
	"fmt"
	"os"

	"github.com/sluice-dev/sluice/internal/rpc"
)

// CodeNoPending says that the question has been answered, or withdrawn, or never was.
const CodeNoPending = -32001

// CodeCapacity says that a supervisor has as many runs as it may have.
const CodeCapacity = -32050

// methods is what a connection may ask for. To add one: write it and name it here, and in docs/control.md.
var methods = map[string]func(*guest, *rpc.Request) (any, error){
	"identity":             (*guest).identity,
	"status":               (*guest).status,
	"result":               (*guest).result,
	"list":                 (*guest).list,
	"subscribe":            (*guest).subscribe,
	"history":              (*guest).history,
	"prompt":               (*guest).prompt,
	"interrupt_and_prompt": (*guest).interrupt,
	"cancel":               (*guest).cancel,
	"answer_permission":    (*guest).answer,
	"emit":                 (*guest).emit,
	"shutdown":             (*guest).shutdown,
}

func (g *guest) handle(r *rpc.Request) {
	if r.Method == "spawn" { // which takes a while
		g.server.running.Go(func() { respond(r, func() (any, error) { return g.spawn(r) }) })
		return
	}
	method, ok := methods[r.Method]
	if !ok {
		_ = r.Fail(rpc.Errorf(rpc.CodeMethod, "there is no method %q", r.Method)) // it is gone
		return
	}
	respond(r, func() (any, error) { return method(g, r) })
}

// respond answers with what the method says. A bug in it does not take the run with it.
func respond(r *rpc.Request, method func() (any, error)) {
	result, err := func() (result any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return method()
	}()
	if err != nil {
		_ = r.Fail(err) // it is gone
		return
	}
	_ = r.Reply(result) // likewise
}

// target is what most methods take.
type target struct {
	RuntimeID string `json:"runtime_id,omitempty"`
}

// An Identity says who serves a socket.
type Identity struct {
	Token   string `json:"token"`
	Program string `json:"program"`
	Version string `json:"version,omitempty"`
	PID     int    `json:"pid"`
	Runs    int    `json:"runs"`
	Spawns  bool   `json:"spawns"` // it can begin runs
}

func (g *guest) identity(*rpc.Request) (any, error) {
	s := g.server
	return Identity{Token: s.o.Token, Program: "sluice", Version: s.o.Version, PID: os.Getpid(), Runs: len(s.list()), Spawns: s.o.Spawn != nil}, nil
}

// of finds the run that a request is about.
func (g *guest) of(r *rpc.Request) (*served, error) {
	var p target
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	return g.server.find(p.RuntimeID)
}

func (g *guest) status(r *rpc.Request) (any, error) {
	run, err := g.of(r)
	if err != nil {
		return nil, err
	}
	s, _, err := run.status()
	return s, err
}

// A Result is the whole of what the agent said in its last reply.
type Result struct {
	RuntimeID   string `json:"runtime_id"`
	FinalOutput string `json:"final_output"`
}

func (g *guest) result(r *rpc.Request) (any, error) {
	run, err := g.of(r)
	if err != nil {
		return nil, err
	}
	_, said, err := run.status()
	return Result{run.info.ID, said}, err
}

// A List is every run that a server knows.
type List struct {
	Runtimes []Status `json:"runtimes"`
}

func (g *guest) list(*rpc.Request) (any, error) {
	l := List{Runtimes: []Status{}}
	for _, run := range g.server.list() {
		s, _, err := run.status()
		if err != nil {
			return nil, err
		}
		l.Runtimes = append(l.Runtimes, s)
	}
	return l, nil
}
