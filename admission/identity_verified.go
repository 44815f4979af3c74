package admission

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// verifiedTokens bounds how many verified tokens are remembered, some 200 bytes
// each. When more buyers ask, those who have not asked for longest are verified anew.
const verifiedTokens = 100_000

// verified remembers tokens that were verified, under their SHA-256, so that only
// the same token, to the last bit, finds what it says. Safe for concurrent use.
type verified struct {
	mu     sync.Mutex
	tokens *simplelru.LRU[[sha256.Size]byte, verifiedToken]
	purges uint64
}

type verifiedToken struct {
	user string
	end  time.Time // from then on it has to be verified again, and will be refused
}

func newVerified(most int) *verified {
	tokens, err := simplelru.NewLRU[[sha256.Size]byte, verifiedToken](most, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &verified{tokens: tokens}
}

func (v *verified) get(token string, now time.Time) (user string, ok bool) {
	id := sha256.Sum256([]byte(token))
	v.mu.Lock()
	defer v.mu.Unlock()
	t, ok := v.tokens.Get(id)
	if ok && !now.Before(t.end) {
		v.tokens.Remove(id)
		return "", false
	}
	return t.user, ok
}

// generation is to be read before a token is verified: see add.
func (v *verified) generation() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.purges
}

// add remembers a token, unless there was a purge since its verification began: its
// key may be one of those that are gone.
func (v *verified) add(generation uint64, token, user string, end time.Time) {
	id := sha256.Sum256([]byte(token))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.purges == generation {
		v.tokens.Add(id, verifiedToken{user: user, end: end})
	}
}

// purge forgets all tokens.
func (v *verified) purge() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tokens.Purge()
	v.purges++
}
