package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"time"
)

// transport is how connections to the hooks are secured. nil is plain HTTP.
type transport struct {
	certificate *reloaded[*tls.Certificate]
	// clients has the authorities of client certificates, nil if none are asked for.
	clients *reloaded[*x509.CertPool]
}

func newTransport(c *config, clock func() time.Time, log *slog.Logger) (*transport, error) {
	if c.tlsCertFile == "" {
		return nil, nil
	}
	var t transport
	var err error
	t.certificate, err = newReloaded("the TLS certificate", []string{c.tlsCertFile, c.tlsKeyFile}, parsePair, clock, log)
	if err != nil || c.tlsClientCAFile == "" {
		return &t, err
	}
	t.clients, err = newReloaded("the authorities of clients", []string{c.tlsClientCAFile}, parseAuthorities, clock, log)
	return &t, err
}

func parsePair(contents [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	return &pair, err
}

func parseAuthorities(contents [][]byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(contents[0]) {
		return nil, errors.New("no certificate in PEM form found")
	}
	return pool, nil
}

// listen secures what arrives at l. Each handshake sees the files as they are.
//
// TLS 1.3 is spoken by Metacontroller and by kubelets, and needs no choice of
// ciphers. There is no HTTP/2: the limits are made for a connection with one
// request at a time, and many connections reach all replicas. Sessions are not
// resumed, so that a client's certificate is looked at in each handshake.
func (t *transport) listen(l net.Listener) net.Listener {
	if t == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := &tls.Config{
				MinVersion:             tls.VersionTLS13,
				Certificates:           []tls.Certificate{*t.certificate.get()},
				NextProtos:             []string{"http/1.1"},
				SessionTicketsDisabled: true,
			}
			if t.clients != nil {
				// Who has none comes as far as the probes: kubelets bring none.
				now.ClientAuth, now.ClientCAs = tls.VerifyClientCertIfGiven, t.clients.get()
			}
			return now, nil
		},
	})
}

// trusts tells whether a connection has a client certificate of an authority that
// is trusted now. Connections live longer than files.
func (t *transport) trusts(state *tls.ConnectionState) bool {
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	options := x509.VerifyOptions{
		Roots:         t.clients.get(),
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, certificate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(certificate)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err == nil
}
