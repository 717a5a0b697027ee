package downstream

import (
	"net"
	"syscall"
)

// userOf is the user at the other end of a Unix socket; false: it is none, or the system does not
// say.
func userOf(c net.Conn) (uid uint32, ok bool) {
	wire, is := below(c).(*net.UnixConn)
	if !is {
		return 0, false
	}
	raw, err := wire.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if ok = err == nil; ok {
			uid = cred.Uid
		}
	})
	return uid, ok && err == nil
}
