package locktest

import "time"

// chunk is what one read brought, and when.
type chunk struct {
	data []byte
	at   time.Time
}

// pump moves the bytes of one direction. A reader of its own takes them off the
// socket, so that a held direction looks like a silent network and not like a full one.
func (p *Proxy) pump(l *link, up bool) {
	defer p.wg.Done()
	from, to := l.client, l.server
	if !up {
		from, to = l.server, l.client
	}
	chunks := make(chan chunk, 4096)
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		defer close(chunks)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				chunks <- chunk{buf[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range chunks {
		if p.lost(l, up) || !p.await(l, up, c) {
			break
		}
		if _, err := to.Write(c.data); err != nil {
			break
		}
	}
	if up && p.delivered(l) {
		p.linger(l)
	}
	p.end(l, up)
	for range chunks { // let the reader end
	}
}

// lateEnd is how long the server keeps a connection whose stranded requests were
// delivered: long enough to carry them out.
const lateEnd = 500 * time.Millisecond

func (p *Proxy) delivered(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.late
}

func (p *Proxy) linger(l *link) {
	t := time.NewTimer(lateEnd)
	defer t.Stop()
	for {
		p.mu.Lock()
		changed, closed := p.changed, p.closed
		p.mu.Unlock()
		if closed {
			return
		}
		select {
		case <-t.C:
			return
		case <-changed:
		}
	}
}

// end closes a link. A stranded link whose client has gone still delivers what it holds.
func (p *Proxy) end(l *link, up bool) {
	if !up && p.stranded(l) {
		return // the other direction closes it
	}
	l.close()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *Proxy) stranded(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return (l.strand || l.late) && !p.closed
}

// lost decides about SwallowAnswer.
func (p *Proxy) lost(l *link, up bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.swallow {
		return false
	}
	if up {
		l.asked = true
		return false
	}
	if l.asked {
		p.swallow = false
		return true
	}
	return false
}

// await returns when the chunk may go on; false if the link has ended.
func (p *Proxy) await(l *link, up bool, c chunk) bool {
	for {
		p.mu.Lock()
		r, changed, closed := p.up, p.changed, p.closed
		_, there := p.links[l]
		held := r.hold || l.strand
		if !up {
			r = p.down
			held = r.hold
		}
		l.kept = l.kept || (up && l.strand)
		p.mu.Unlock()
		if closed || !there {
			return false
		}
		left := r.delay - time.Since(c.at)
		if !held && left <= 0 {
			return true
		}
		if held {
			left = time.Hour
		}
		t := time.NewTimer(left)
		select {
		case <-changed:
		case <-t.C:
		}
		t.Stop()
	}
}
