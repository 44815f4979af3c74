package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority issues certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	path string // of its own certificate
	dir  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, pool: x509.NewCertPool(), dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.path = a.file("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) file(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue writes a certificate and its key, under a serial number to know it by.
func (a *authority) issue(name string, serial int64) (certPath, keyPath string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.file(name+".pem", "CERTIFICATE", der), a.file(name+"-key.pem", "PRIVATE KEY", keyDER)
}

// Both addresses speak TLS, with a certificate that is checked, and nothing else.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issue("server", 7)
	i := newInstalled(t, "etcd")
	i.environ = append(i.environ, "SECKILL_HTTP_TLS_CERT="+cert, "SECKILL_HTTP_TLS_KEY="+key, "SECKILL_ADMIN_TLS_CERT="+cert, "SECKILL_ADMIN_TLS_KEY="+key)
	s := i.serve("--roles", "api")
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	for _, url := range []string{s.http + "/v1/activities/none", s.admin + "/admin/v1/activities/none"} {
		if got := ask(t, client, http.MethodGet, "https://"+url, ""); got.status != http.StatusNotFound && got.status != http.StatusUnauthorized || got.header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: %d %v", url, got.status, got.header)
		}
		if got := ask(t, nil, http.MethodGet, "http://"+url, ""); got.status != http.StatusBadRequest || !strings.Contains(got.body, "HTTPS") {
			t.Errorf("%s without TLS: %d %s", url, got.status, got.body)
		}
	}
	if got := runWith(t, append(i.environ, "SECKILL_HTTP_TLS_CERT="+key), "serve"); got.code != exitUsage || !strings.Contains(got.stderr, "certificate") {
		t.Errorf("a certificate that is none: exit %d, %s", got.code, got.stderr)
	}
}

// A renewed certificate is used without a restart; a spoilt one is not used at all.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issue("server", 1)
	c := &certificate{certPath: cert, keyPath: key, logger: slog.New(slog.DiscardHandler)}
	serial := func() int64 {
		t.Helper()
		c.looked = time.Time{} // as if the ten seconds were over
		got, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Errorf("certificate %d, want 1", n)
	}
	ca.issue("server", 2)
	later := time.Now().Add(time.Minute) // a file system may keep whole seconds
	for _, path := range []string{cert, key} {
		if err := os.Chtimes(path, later, later); err != nil {
			t.Fatal(err)
		}
	}
	if n := serial(); n != 2 {
		t.Errorf("certificate %d, want 2", n)
	}
	if err := os.WriteFile(cert, []byte("spoilt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := serial(); n != 2 {
		t.Errorf("certificate %d after the file was spoilt, want 2", n)
	}
}
