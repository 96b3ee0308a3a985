package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	corev1 "k8s.io/api/core/v1"
)

// endpoint is how a connection is made. It is read when the controller starts: what
// it refers to may change, and nobody notices until the CompositeController does.
type endpoint struct {
	CABundle *struct {
		Inline       *string `json:"inline"`
		SecretRef    *keyRef `json:"secretRef"`
		ConfigMapRef *keyRef `json:"configMapRef"`
	} `json:"caBundle"`
	ClientTLS *struct {
		SecretRef     keyRef `json:"secretRef"`
		CertKey       string `json:"certKey"`
		PrivateKeyKey string `json:"privateKeyKey"`
	} `json:"clientTLS"`
	Authorization *struct {
		Type      string `json:"type"`
		SecretRef keyRef `json:"secretRef"`
	} `json:"authorization"`
}

// endpointConfig is for all hooks at a host.
type endpointConfig struct {
	Host      string `json:"host"`
	BasicAuth any    `json:"basicAuth"`
	endpoint  `json:",inline"`
}

type keyRef struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
}

// reader gets what endpoints refer to.
type reader struct {
	ctx    context.Context
	client dynamic.Interface
}

func (r reader) get(resource string, ref keyRef, into any) error {
	u, err := r.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(ref.Namespace).Get(r.ctx, ref.Name, getOptions)
	if err != nil {
		return err
	}
	return convert(u, into)
}

func convert(u *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}

// connect reads what the hook's connections are made with: the hook's own settings,
// or if it has none those of the first endpointConfig for its host.
func (h *hook) connect(r reader, configs []endpointConfig) error {
	e := &h.Webhook.endpoint
	if e.CABundle == nil && e.ClientTLS == nil && e.Authorization == nil {
		address, err := h.address()
		if err != nil {
			return err
		}
		if e, err = match(address, configs); e == nil || err != nil {
			return err
		}
	}
	var config tls.Config
	if e.CABundle != nil {
		pem, err := e.authorities(r)
		if err != nil {
			return fmt.Errorf("can't resolve caBundle: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return errors.New("caBundle: no valid PEM-encoded certificates found in the provided CA bundle")
		}
	}
	if e.ClientTLS != nil {
		pair, err := e.pair(r)
		if err != nil {
			return fmt.Errorf("can't resolve clientTLS: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if e.CABundle != nil || e.ClientTLS != nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = &config
		h.Through = t
	}
	if e.Authorization != nil {
		value, err := e.header(r)
		if err != nil {
			return fmt.Errorf("can't resolve authorization: %w", err)
		}
		h.Header = value
	}
	return nil
}

// match finds the settings for an address: those of its host, with its port unless
// that is the usual one.
func match(address string, configs []endpointConfig) (*endpoint, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil //nolint:nilerr // the call tells of it
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	for i := range configs {
		host := configs[i].Host
		switch {
		case strings.EqualFold(host, u.Host),
			u.Port() == "" && strings.EqualFold(host, u.Hostname()+":"+usual),
			u.Port() == usual && strings.EqualFold(host, u.Hostname()):
			if configs[i].BasicAuth != nil {
				return nil, errors.New("the double has no basicAuth")
			}
			return &configs[i].endpoint, nil
		}
	}
	return nil, nil
}

func (e *endpoint) authorities(r reader) ([]byte, error) {
	b := e.CABundle
	switch {
	case b.Inline != nil && b.SecretRef == nil && b.ConfigMapRef == nil:
		return []byte(*b.Inline), nil
	case b.Inline == nil && b.SecretRef != nil && b.ConfigMapRef == nil:
		var secret corev1.Secret
		if err := r.get("secrets", *b.SecretRef, &secret); err != nil {
			return nil, fmt.Errorf("caBundle: failed to get Secret %s/%s: %w", b.SecretRef.Namespace, b.SecretRef.Name, err)
		}
		return found(secret.Data[b.SecretRef.Key], "caBundle: key %q not found in Secret %s/%s", b.SecretRef)
	case b.Inline == nil && b.SecretRef == nil && b.ConfigMapRef != nil:
		var cm corev1.ConfigMap
		if err := r.get("configmaps", *b.ConfigMapRef, &cm); err != nil {
			return nil, fmt.Errorf("caBundle: failed to get ConfigMap %s/%s: %w", b.ConfigMapRef.Namespace, b.ConfigMapRef.Name, err)
		}
		return found([]byte(cm.Data[b.ConfigMapRef.Key]), "caBundle: key %q not found in ConfigMap %s/%s", b.ConfigMapRef)
	}
	return nil, errors.New("caBundle needs exactly one of inline, secretRef and configMapRef")
}

func found(data []byte, otherwise string, ref *keyRef) ([]byte, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf(otherwise, ref.Key, ref.Namespace, ref.Name)
	}
	return data, nil
}

// pair and header rely on the defaults that the CRD writes into keys and types.
func (e *endpoint) pair(r reader) (tls.Certificate, error) {
	c := e.ClientTLS
	var secret corev1.Secret
	if err := r.get("secrets", c.SecretRef, &secret); err != nil {
		return tls.Certificate{}, fmt.Errorf("can't get clientTLS secret %s/%s: %w", c.SecretRef.Namespace, c.SecretRef.Name, err)
	}
	pair, err := tls.X509KeyPair(secret.Data[c.CertKey], secret.Data[c.PrivateKeyKey])
	if err != nil {
		return pair, fmt.Errorf("can't parse clientTLS certificate from secret %s/%s: %w", c.SecretRef.Namespace, c.SecretRef.Name, err)
	}
	return pair, nil
}

func (e *endpoint) header(r reader) (string, error) {
	a := e.Authorization
	var secret corev1.Secret
	if err := r.get("secrets", a.SecretRef, &secret); err != nil {
		return "", fmt.Errorf("can't get authorization secret %s/%s: %w", a.SecretRef.Namespace, a.SecretRef.Name, err)
	}
	value, ok := secret.Data[a.SecretRef.Key]
	if !ok {
		return "", fmt.Errorf("authorization secret %s/%s does not contain key %q", a.SecretRef.Namespace, a.SecretRef.Name, a.SecretRef.Key)
	}
	return a.Type + " " + string(bytes.TrimSpace(value)), nil
}
