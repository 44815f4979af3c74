package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateAge is how long a certificate is used before its files are looked at
// again.
const certificateAge = 10 * time.Second

// certificate is a server's certificate in two files. It is read again when one of
// them has changed; while they cannot be read or do not belong together, the one of
// before stays in force. Safe for concurrent use.
type certificate struct {
	certPath, keyPath string
	logger            *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	looked  time.Time
	changed [2]time.Time // of the two files, when they were read
}

// openTLS is how a server speaks TLS with the certificate in the files; nil without.
func openTLS(certPath, keyPath string, logger *slog.Logger) (*tls.Config, error) {
	if certPath == "" {
		return nil, nil
	}
	c := &certificate{certPath: certPath, keyPath: keyPath, logger: logger}
	if err := c.read(); err != nil {
		return nil, wrongUsage(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: c.get}, nil
}

// get is asked at every handshake.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= certificateAge {
		if err := c.read(); err != nil {
			c.logger.Warn("certificate not read again: the one of before stays in force", "error", err)
		}
	}
	return c.current, nil
}

func (c *certificate) read() error {
	c.looked = time.Now()
	var changed [2]time.Time
	for i, path := range []string{c.certPath, c.keyPath} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("read the certificate: %w", err)
		}
		changed[i] = info.ModTime()
	}
	if c.current != nil && changed == c.changed {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.certPath, c.keyPath)
	if err != nil {
		return fmt.Errorf("read the certificate in %s and its key in %s: %w", c.certPath, c.keyPath, err)
	}
	c.current, c.changed = &pair, changed
	return nil
}

// storesTLS is how stores are spoken to whose URLs ask for TLS: the authorities of
// the system and of stores.tls_ca are believed, and certificates always checked.
func (c Config) storesTLS() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.StoresTLSCA != "" {
		pem, err := os.ReadFile(c.StoresTLSCA)
		if err != nil {
			return nil, wrongUsage(fmt.Errorf("configuration: stores.tls_ca: %w", err))
		}
		if t.RootCAs, err = x509.SystemCertPool(); err != nil {
			t.RootCAs = x509.NewCertPool()
		}
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrongUsage(errors.New("configuration: stores.tls_ca: there is no PEM certificate in the file"))
		}
	}
	if c.StoresTLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.StoresTLSCert, c.StoresTLSKey)
		if err != nil {
			return nil, wrongUsage(fmt.Errorf("configuration: stores.tls_cert and stores.tls_key: %w", err))
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
