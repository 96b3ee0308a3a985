package main

import (
	"encoding/base64"
	"strings"
	"testing"
)

// Whatever else is in an object with our label is somebody else's, and so is a copy in
// an annotation that is not one of the object.
func TestForeignDataBesideOurs(t *testing.T) {
	b := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	r := &redactor{key: []byte("key")}
	for _, row := range []string{
		`{"kind":"Secret","type":"Opaque","metadata":{"name":"web-rev-1","labels":{"greyrelease.example.com/name":"web"}},"data":{"config.json":"` + b(`{"password":"hunter2"}`) + `","pin":"` + b(`271828`) + `"}}`,
		`{"kind":"Secret","type":"greyrelease.example.com/snapshot","metadata":{"name":"web-rev-1","labels":{"greyrelease.example.com/name":"web"}},"data":{"spec.json":"` + b(`{"targetVersion":"1"}`) + `","config.json":"` + b(`{"password":"hunter2"}`) + `","pin":"` + b(`271828`) + `"}}`,
		`{"kind":"Secret","type":"Opaque","metadata":{"name":"x","labels":{"greyrelease.example.com/name":"web"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"a\":\"` + b("hunter2") + `\"}}"}},"data":{}}`,
		`{"kind":"Secret","type":"Opaque","metadata":{"name":"x","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"kind\":\"Secret\",\"stringData\":{\"a\":\"hunter2\"}}"}},"data":{}}`,
		`{"kind":"ConfigMap","metadata":{"name":"web-rollout","labels":{"greyrelease.example.com/name":"web"}},"data":{"config.json":"{\"password\":\"hunter2\"}","pin":"271828"}}`,
	} {
		text, _, err := r.redact([]byte(`{"parent":{"metadata":{"name":"web"},"spec":{}},"children":{"Secret.v1":{"a":` + row + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"hunter2", "271828", b("hunter2"), b("271828"), b(`{"password":"hunter2"}`)} {
			if strings.Contains(string(text), s) {
				t.Errorf("want %s redacted, got %s", s, text)
			}
		}
	}
}
