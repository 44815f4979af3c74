package admission

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

// Bounds of reading a key set.
const (
	keysInterval = 5 * time.Minute  // between two readings: how long a withdrawn key is still believed
	keysPause    = 10 * time.Second // at least, between two readings that unknown kids cause
	keysTimeout  = 2 * time.Second  // of one reading
	keysMaxBytes = 1 << 20          // of a key set
	minRSABits   = 2048
)

// Keys are the public keys of whoever issues the buyers' tokens: a JWKS (RFC 7517)
// in a file or at a URL, read again and again, so that keys can be rotated. While it
// cannot be read, the keys of before stay in force. Safe for concurrent use.
type Keys struct {
	place   string
	client  *http.Client
	changed func() // called after the keys have become others; set before use

	reading sync.Mutex // one reading at a time; guards next
	next    time.Time  // no unknown kid causes a reading before it

	mu   sync.RWMutex
	all  map[string]signingKey // by kid
	text []byte                // that the keys were read from
}

// signingKey is a public key and the one algorithm that is believed with it.
type signingKey struct {
	algorithm string
	public    any
}

// OpenKeys reads the key set at place, a path or an http or https URL, for the first
// time. The client (default: http.DefaultClient) is used for URLs.
func OpenKeys(ctx context.Context, place string, client *http.Client) (*Keys, error) {
	if client == nil {
		client = http.DefaultClient
	}
	k := &Keys{place: place, client: client, changed: func() {}}
	return k, k.read(ctx)
}

// Run reads the key set every five minutes until ctx ends.
func (k *Keys) Run(ctx context.Context, logger *slog.Logger) {
	tick := time.NewTicker(keysInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.reading.Lock()
			err := k.read(ctx)
			k.reading.Unlock()
			if err != nil && ctx.Err() == nil {
				logger.Warn("key set not read: the keys of before stay in force", "error", err)
			}
		}
	}
}

var errNoKey = errors.New("no key of the key set has the token's kid")

// find returns the key of a kid. One that is not known causes a reading of the set,
// at most one in ten seconds however many ask. A token without a kid means the only
// key there is.
func (k *Keys) find(ctx context.Context, kid string) (signingKey, error) {
	if key, ok := k.known(kid); ok {
		return key, nil
	}
	k.reading.Lock()
	defer k.reading.Unlock()
	if key, ok := k.known(kid); ok { // somebody else has read it meanwhile
		return key, nil
	}
	if time.Now().Before(k.next) {
		return signingKey{}, errNoKey
	}
	k.next = time.Now().Add(keysPause)
	// A buyer who goes away must not cost the others this reading.
	if err := k.read(context.WithoutCancel(ctx)); err != nil {
		return signingKey{}, err
	}
	if key, ok := k.known(kid); ok {
		return key, nil
	}
	return signingKey{}, errNoKey
}

func (k *Keys) known(kid string) (signingKey, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if kid == "" && len(k.all) == 1 {
		for _, only := range k.all {
			return only, true
		}
	}
	key, ok := k.all[kid]
	return key, ok
}

// read takes the set from its place. What was verified with a key that is gone must
// be forgotten, so changed is called after the new keys are in force.
func (k *Keys) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	data, err := k.fetch(ctx)
	if err != nil {
		return fmt.Errorf("read the key set of the buyers' tokens: %w", err)
	}
	all, err := parseKeys(data)
	if err != nil {
		return fmt.Errorf("read the key set of the buyers' tokens: %w", err)
	}
	k.mu.Lock()
	same := bytes.Equal(k.text, data)
	k.text, k.all = data, all
	k.mu.Unlock()
	if !same {
		k.changed()
	}
	return nil
}

// fetch reads the file or asks the URL. Its errors do not quote the URL, which may
// have a password in it.
func (k *Keys) fetch(ctx context.Context) ([]byte, error) {
	if !strings.HasPrefix(k.place, "http://") && !strings.HasPrefix(k.place, "https://") {
		f, err := os.Open(k.place)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		return readAtMost(f, keysMaxBytes)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.place, nil)
	if err != nil {
		return nil, errors.New("its URL cannot be used")
	}
	resp, err := k.client.Do(req)
	var quoting *url.Error
	if errors.As(err, &quoting) {
		err = quoting.Err
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its URL answers %s", resp.Status)
	}
	return readAtMost(resp.Body, keysMaxBytes)
}

func readAtMost(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	return data, err
}

// parseKeys takes those keys of a JWKS that may sign tokens here, by kid. Others,
// such as keys of encryption or of other algorithms, are passed over.
func parseKeys(data []byte) (map[string]signingKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("it is not a JWKS: %w", err)
	}
	all := map[string]signingKey{}
	for _, raw := range set.Keys {
		jwk, err := jwkset.NewJWKFromRawJSON(raw, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
		if err != nil {
			continue
		}
		key, ok := signingKeyOf(jwk)
		if !ok {
			continue
		}
		kid := jwk.Marshal().KID
		if _, twice := all[kid]; twice {
			return nil, fmt.Errorf("two of its keys have the kid %.80q", kid)
		}
		all[kid] = key
	}
	if len(all) == 0 {
		return nil, errors.New("none of its keys is for RS256 (of 2048 bits or more), ES256 or EdDSA")
	}
	return all, nil
}

// signingKeyOf says which algorithm a key is believed with: its kind decides.
func signingKeyOf(jwk jwkset.JWK) (signingKey, bool) {
	var key signingKey
	switch public := jwk.Key().(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() >= minRSABits {
			key = signingKey{jwt.SigningMethodRS256.Alg(), public}
		}
	case *ecdsa.PublicKey:
		if public.Curve == elliptic.P256() {
			key = signingKey{jwt.SigningMethodES256.Alg(), public}
		}
	case ed25519.PublicKey:
		key = signingKey{jwt.SigningMethodEdDSA.Alg(), public}
	}
	m := jwk.Marshal()
	signs := m.USE == "" || m.USE == jwkset.UseSig
	meant := m.ALG == "" || string(m.ALG) == key.algorithm
	return key, key.public != nil && signs && meant
}
