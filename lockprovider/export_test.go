package lockprovider

// switches name the safeguards that SwitchOff knows.
var switches = map[string]func(*holes){
	"owner compared in release":        func(h *holes) { h.ownerCompare = true },
	"create revision in release":       func(h *holes) { h.revision = true },
	"nonce per acquisition":            func(h *holes) { h.nonce = true },
	"deadline counted from sending":    func(h *holes) { h.sendTime = true },
	"Err compares clocks":              func(h *holes) { h.localDeadline = true },
	"wall clock counts too":            func(h *holes) { h.wallClock = true },
	"late grant is refused":            func(h *holes) { h.lateGrant = true },
	"undo of unknown attempts":         func(h *holes) { h.undo = true },
	"abort marker":                     func(h *holes) { h.abortMarker = true },
	"subscription before deciding try": func(h *holes) { h.subscribeFirst = true },
	"timer beside messages":            func(h *holes) { h.timer = true },
	"waiter watches its own key":       func(h *holes) { h.ownKeyWatch = true },
	"evictions are pushed":             func(h *holes) { h.push = true },
	"token above a lost counter":       func(h *holes) { h.tokenFloor = true },
	"renewal never creates":            func(h *holes) { h.renewCreates = true },
	"release is repeated":              func(h *holes) { h.releaseRetry = true },
	"release without caller's context": func(h *holes) { h.callerContext = true },
	"limits without the store":         func(h *holes) { h.bounded = true },
	"callers never stay long":          func(h *holes) { h.stay = true },
	"re-entry is recognised":           func(h *holes) { h.reentry = true },
}

// SwitchOff makes a provider of cfg without the named safeguard; false if there is none.
func SwitchOff(cfg *Config, safeguard string) bool {
	off := switches[safeguard]
	if off == nil {
		return false
	}
	off(&cfg.holes)
	return true
}

// Safeguards is how many switches there are.
func Safeguards() int { return len(switches) }
