package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// callers knows who may call the hooks.
type callers struct {
	transport *transport
	// tokens are the accepted ones, nil if none is asked for.
	tokens *reloaded[tokens]
}

func newCallers(c *config, t *transport, clock func() time.Time, log *slog.Logger) (*callers, error) {
	k := &callers{transport: t}
	if c.authTokenFile == "" {
		return k, nil
	}
	var err error
	k.tokens, err = newReloaded("the bearer tokens", []string{c.authTokenFile}, parseTokens, clock, log)
	return k, err
}

// tokens are digests: they have one length, and a comparison of two takes the same
// time wherever they differ.
type tokens [][sha256.Size]byte

// parseTokens reads one token a line, so that the next can be accepted before the
// one in use is given up.
func parseTokens(contents [][]byte) (tokens, error) {
	var all tokens
	for line := range bytes.Lines(contents[0]) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		// What a header cannot carry would never match.
		if bytes.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("token %d has other characters than visible ASCII", len(all)+1)
		}
		all = append(all, sha256.Sum256(line))
	}
	if len(all) == 0 {
		return nil, errors.New("the file holds no token")
	}
	return all, nil
}

// accepts looks at all tokens, whether or not one has matched.
func (t tokens) accepts(token string) bool {
	got, found := sha256.Sum256([]byte(token)), 0
	for i := range t {
		found |= subtle.ConstantTimeCompare(t[i][:], got[:])
	}
	return found == 1
}

// callerError says that a caller is not one who may call the hooks.
type callerError struct{ reason string }

func (e *callerError) Error() string { return e.reason }

// check tells whether a request may go on. It reads nothing of its body.
func (k *callers) check(r *http.Request) error {
	if k.transport != nil && k.transport.clients != nil && !k.transport.trusts(r.TLS) {
		return &callerError{"the call has no client certificate that is trusted (--tls-client-ca-file), see clientTLS of the CompositeController"}
	}
	if k.tokens == nil {
		return nil
	}
	token, ok := bearer(r.Header["Authorization"])
	if !ok {
		return &callerError{"the call has no bearer token (--auth-token-file), see authorization of the CompositeController"}
	}
	if !k.tokens.get().accepts(token) {
		return &callerError{"the bearer token of the call is not accepted (--auth-token-file), see authorization of the CompositeController"}
	}
	return nil
}

// bearer is the token of a header Authorization that is there once. The scheme may
// be written in any case.
func bearer(headers []string) (string, bool) {
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, found := strings.Cut(headers[0], " ")
	return strings.TrimSpace(token), found && strings.EqualFold(scheme, "Bearer")
}
