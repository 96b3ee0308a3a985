package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"

	"greyrelease.example.com/test/authority"
)

// hooked is a CompositeController with a sync hook of these settings.
func hooked(t *testing.T, webhook, configs string) *composite {
	t.Helper()
	spec, err := decodeComposite(object(t, fmt.Sprintf(`
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: things}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: things}
  endpointConfigs: %s
  hooks: {sync: {version: v2, webhook: %s}}`, configs, webhook)))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// A hook is called with what its own settings refer to, or with those of its host.
func TestConnect(t *testing.T) {
	ca, err := authority.New("ca")
	if err != nil {
		t.Fatal(err)
	}
	at, err := ca.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	of, err := ca.Client("metacontroller")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(at.Certificate, at.Key)
	if err != nil {
		t.Fatal(err)
	}
	var seen *http.Request
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		fmt.Fprint(w, "{}")
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: x509.NewCertPool()}
	server.TLS.ClientCAs.AppendCertsFromPEM(ca.PEM)
	server.StartTLS()
	defer server.Close()

	encoded := func(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
	client := fake.NewSimpleDynamicClient(runtime.NewScheme(),
		object(t, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: ca, namespace: ns}, data: {ca.crt: %q}}`, ca.PEM)),
		object(t, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: client, namespace: ns}, data: {tls.crt: %s, tls.key: %s}}`, encoded(of.Certificate), encoded(of.Key))),
		object(t, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: ns}, data: {token: %s}}`, encoded([]byte("sesame\n")))))
	const (
		bundle = `caBundle: {configMapRef: {name: ca, namespace: ns, key: ca.crt}}`
		pairOf = `clientTLS: {secretRef: {name: client, namespace: ns}, certKey: tls.crt, privateKeyKey: tls.key}`
		bearer = `authorization: {type: Bearer, secretRef: {name: token, namespace: ns, key: token}}`
	)
	host := strings.TrimPrefix(server.URL, "https://")
	all := strings.Join([]string{bundle, pairOf, bearer}, ", ")
	for _, row := range []struct {
		name, webhook, configs string
		want                   string // a part of the error, "" for none
		header                 string
		certificates           int
	}{
		{"nothing is trusted", `{url: URL}`, `[]`, "certificate signed by unknown authority", "", 0},
		{"another host", `{url: URL}`, `[{host: "127.0.0.1:1", ` + all + `}]`, "certificate signed by unknown authority", "", 0},
		{"for the host", `{url: URL}`, `[{host: "` + host + `", ` + all + `}]`, "", "Bearer sesame", 1},
		{"of the hook", `{url: URL, ` + all + `}`, `[]`, "", "Bearer sesame", 1},
		{"the hook's own alone count", `{url: URL, ` + bundle + `}`, `[{host: "` + host + `", ` + all + `}]`, "", "", 0},
		{"no such Secret", `{url: URL, authorization: {type: Bearer, secretRef: {name: gone, namespace: ns, key: token}}}`, `[]`,
			`can't resolve authorization: can't get authorization secret ns/gone: secrets "gone" not found`, "", 0},
		{"no such key", `{url: URL, authorization: {type: Bearer, secretRef: {name: token, namespace: ns, key: other}}}`, `[]`,
			`can't resolve authorization: authorization secret ns/token does not contain key "other"`, "", 0},
		{"no such bundle", `{url: URL, caBundle: {configMapRef: {name: ca, namespace: ns, key: other}}}`, `[]`,
			`caBundle: key "other" not found in ConfigMap ns/ca`, "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			seen = nil
			spec := hooked(t, strings.ReplaceAll(row.webhook, "URL", server.URL), row.configs)
			h := spec.Spec.Hooks.Sync
			err := h.connect(reader{t.Context(), client}, spec.Spec.EndpointConfigs)
			if err == nil {
				err = h.call(t.Context(), "sync", map[string]any{}, &answer{})
			}
			if row.want != "" {
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("want an error with %q, got %v", row.want, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := seen.Header.Get("Authorization"); row.header != got || row.certificates != len(seen.TLS.PeerCertificates) {
				t.Errorf("want %q and %d certificates, got %q and %d", row.header, row.certificates, got, len(seen.TLS.PeerCertificates))
			}
		})
	}
}
