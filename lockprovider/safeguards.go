package lockprovider

// holes switches single safeguards off. It is set by tests only, which show that
// each of them is missed by the conformance suite when it is gone.
type holes struct {
	ownerCompare   bool // Redis: release and undo without comparing the owner
	revision       bool // etcd: release without comparing the create revision
	nonce          bool // one nonce for all acquisitions of a provider
	sendTime       bool // deadline counted from the answer, not from the sending
	localDeadline  bool // Err reads a flag, nobody compares clocks
	wallClock      bool // only the monotonic clock counts
	lateGrant      bool // a grant that arrives after its deadline is handed out
	undo           bool // attempts of unknown outcome are left alone
	abortMarker    bool // undo is a plain delete
	subscribeFirst bool // Redis: wait without a confirmed subscription and a try after it
	timer          bool // waiters hear messages only
	ownKeyWatch    bool // etcd: a waiter does not look at its own key
	push           bool // nobody listens for evictions
	tokenFloor     bool // Redis: the token is a plain counter
	renewCreates   bool // Redis: renewal writes the key anew
	releaseRetry   bool // a failed release is not repeated
	callerContext  bool // release runs on the caller's context
	bounded        bool // Acquire waits for the store call, whatever its limits say
	stay           bool // Redis: a caller makes the first call himself, however long it takes
	reentry        bool // a nested acquisition is not recognised
}
