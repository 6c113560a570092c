package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func landlockVersion() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// Enter is the first thing that the program does. If it was called to become a command in a sandbox, it does that and does not
// return.
func Enter() {
	if len(os.Args) < 5 || os.Args[1] != enterWord || os.Args[3] != "--" {
		return
	}
	err := become(os.Args[2], os.Args[4:])
	fmt.Fprintf(os.Stderr, "sluice: the sandbox cannot be entered: %v\n", err)
	os.Exit(126)
}

func become(text string, args []string) error {
	var r rules
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TMPDIR=") })
	env = append(env, "TMPDIR="+r.Temp)
	runtime.LockOSThread() // rules are laid on a thread, and the thread that calls exec is the one that stays
	if err := r.restrict(); err != nil {
		return err
	}
	return syscall.Exec(path, args, env)
}

const (
	lookRights = unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | lookRights
	allRights  = fileRights | lookRights | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
)

// devices may be written to: they keep nothing. Shared memory is one of the places that programs cannot do without.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"}

// restrict lays the rules on this thread, for good.
func (r rules) restrict() error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: allRights}
	if r.Version >= landlockTCP && !r.Network {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if r.Version >= landlockSignals {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
		if !r.Network {
			attr.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		}
	}
	size := unsafe.Offsetof(attr.Quiet_access_fs) // what follows is younger
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	defer unix.Close(int(set))
	w := &ruleset{fd: int(set)}
	w.allow("/", lookRights) // names are no secret, and a rule cannot hold for a folder alone
	w.readable("/", r.Hidden)
	for _, path := range r.Read {
		w.allow(path, readRights)
	}
	for _, path := range append(slices.Clone(r.Write), devices...) {
		w.allow(path, allRights)
	}
	if w.err != nil {
		return w.err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// dropCapabilities makes root a user like any other, who happens to own much.
func dropCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&head, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

type ruleset struct {
	fd  int
	err error
}

// allow gives rights to a path and what is below. One that is not there needs none.
func (w *ruleset) allow(path string, rights uint64) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return
	}
	switch info.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		return // where it leads has rules of its own
	default:
		rights &= fileRights
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(w.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
	if errno != 0 && w.err == nil {
		w.err = fmt.Errorf("landlock: %s: %w", path, errno)
	}
}

// readable lets everything in a folder be read but for what is hidden. Landlock cannot take away what it gave to a folder
// above: so each of the neighbours of what is hidden is given by itself.
func (w *ruleset) readable(dir string, hidden []string) {
	inside := slices.DeleteFunc(slices.Clone(hidden), func(h string) bool { _, in := below(dir, h); return !in })
	switch {
	case len(inside) == 0:
		w.allow(dir, readRights)
		return
	case slices.Contains(inside, dir):
		return
	}
	entries, _ := os.ReadDir(dir) // what cannot be listed is not given
	for _, e := range entries {
		w.readable(filepath.Join(dir, e.Name()), inside)
	}
}
