package locktest

import (
	"net"
	"sync"
	"time"
)

// Proxy is a TCP proxy in front of a store that can be told to misbehave, per
// direction. All methods are safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change of the rules
	up      rule
	down    rule
	refuse  bool
	swallow bool
	closed  bool
	links   map[*link]struct{}
}

// A rule says what happens to bytes of one direction.
type rule struct {
	delay time.Duration
	hold  bool // bytes are kept until healed
}

// A link is one connection and its two ends.
type link struct {
	client, server net.Conn
	strand         bool // its requests are kept, whatever the rules say
	kept           bool // has a stranded request
	late           bool // was stranded and then delivered
	asked          bool // a request has passed since SwallowAnswer
	once           sync.Once
}

func (l *link) close() {
	l.once.Do(func() {
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// NewProxy listens on a free loopback port and forwards to target. It ends with the test.
func NewProxy(t T, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	p := &Proxy{target: target, listener: ln, changed: make(chan struct{}), links: map[*link]struct{}{}}
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(p.Close)
	return p
}

// Redirect cuts all connections and sends new ones to another server, as a failover
// behind one address does.
func (p *Proxy) Redirect(target string) {
	p.change(func() { p.target = target })
	p.closeLinks()
}

// Address is where clients connect.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends all connections and waits for the proxy's goroutines.
func (p *Proxy) Close() {
	p.change(func() { p.closed = true })
	_ = p.listener.Close()
	p.closeLinks()
	p.wg.Wait()
}

// Delay lets every byte arrive so much later, each direction on its own.
func (p *Proxy) Delay(up, down time.Duration) {
	p.change(func() { p.up.delay, p.down.delay = up, down })
}

// Hold keeps bytes back, as a silent network does, until Heal delivers them.
func (p *Proxy) Hold(up, down bool) { p.change(func() { p.up.hold, p.down.hold = up, down }) }

// Drop is a silent network whose bytes are gone: what is held is lost with its
// connection at Heal.
func (p *Proxy) Drop() { p.Hold(true, true) }

// Cut closes all connections and refuses new ones until Heal.
func (p *Proxy) Cut() {
	p.change(func() { p.refuse = true })
	p.closeLinks()
}

// Break closes all connections once; new ones work.
func (p *Proxy) Break() { p.closeLinks() }

// Strand keeps the requests of the connections there are now, even if their client
// has closed them, until Deliver; new connections work.
func (p *Proxy) Strand() {
	p.change(func() {
		for l := range p.links {
			l.strand = true
		}
	})
}

// Stranded tells whether a request is kept.
func (p *Proxy) Stranded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.kept {
			return true
		}
	}
	return false
}

// BreakClients closes the client side of all connections; what is stranded is still
// delivered to the server.
func (p *Proxy) BreakClients() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		_ = l.client.Close()
	}
}

// Deliver lets stranded requests through.
func (p *Proxy) Deliver() {
	p.change(func() {
		for l := range p.links {
			l.late, l.strand = l.late || l.strand, false
		}
	})
}

// SwallowAnswer loses the answer to the next request, with its connection.
func (p *Proxy) SwallowAnswer() {
	p.change(func() {
		p.swallow = true
		for l := range p.links {
			l.asked = false
		}
	})
}

// Swallowed tells whether an answer has been lost since SwallowAnswer.
func (p *Proxy) Swallowed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.swallow
}

// Heal ends delays, holds and cuts. Held bytes are delivered.
func (p *Proxy) Heal() { p.change(func() { p.up, p.down, p.refuse = rule{}, rule{}, false }) }

// HealLossy is Heal after Drop: held bytes are lost.
func (p *Proxy) HealLossy() {
	p.closeLinks()
	p.Heal()
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) closeLinks() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.close()
	}
	p.change(func() {})
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		no, target := p.refuse || p.closed, p.target
		p.mu.Unlock()
		if no {
			_ = client.Close()
			continue
		}
		server, err := net.DialTimeout("tcp", target, time.Second)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.links[l] = struct{}{}
		no = p.refuse || p.closed || p.target != target // changed since?
		p.mu.Unlock()
		if no {
			l.close()
		}
		p.wg.Add(2)
		go p.pump(l, true)
		go p.pump(l, false)
	}
}
