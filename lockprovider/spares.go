package lockprovider

import "sync"

// mostSpares bounds what is kept; what is over it is forgotten, which costs nothing but
// a new key.
const mostSpares = 4096

// spares are key names on etcd whose hold was given back and confirmed, so that the next
// acquisition of the name takes the same key. etcd remembers deleted keys until it is
// compacted, and looking into a queue walks over them: with a new key each time a name
// would get slower with every acquisition. Who owns a key is told by its value and its
// create revision, which are new each time. A key of an attempt that was ever in doubt
// is not kept: a late request could still be under way to it.
type spares struct {
	mu   sync.Mutex
	keys map[string][]string // by name
	n    int
}

// take returns a spare key of the name, or fresh.
func (s *spares) take(name, fresh string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.keys[name]
	if len(kept) == 0 {
		return fresh
	}
	last := kept[len(kept)-1]
	if s.n--; len(kept) == 1 {
		delete(s.keys, name)
	} else {
		s.keys[name] = kept[:len(kept)-1]
	}
	return last
}

func (s *spares) keep(name, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= mostSpares || s.keys == nil {
		s.keys, s.n = map[string][]string{}, 0
	}
	s.keys[name] = append(s.keys[name], key)
	s.n++
}
