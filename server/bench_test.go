package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// BenchmarkHandler compares a request through the handler, and through a
// connection on loopback, with the floor: the hook called directly, which here
// does nothing but decode and encode.
func BenchmarkHandler(b *testing.B) {
	for _, size := range []int{5_000, 30_000, 300_000, 8_000_000} {
		child := fmt.Sprintf(`{"metadata":{"name":"x","managedFields":[{"fieldsV1":{"f:x":{%s"f:end":{}}}}]},"data":{"x":%q}}`,
			strings.Repeat(`"f:a":{},`, size/20), strings.Repeat("x", size/2))
		body := `{"parent":{"metadata":{"name":"web"}},"children":{"ConfigMap.v1":{"a":` + child + `}}}`
		f := start(b, echo())
		f.log = slog.New(slog.DiscardHandler)
		run := func(name string, once func() error) {
			b.Run(fmt.Sprintf("%dKB/%s", size/1000, name), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if err := once(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("floor", func() error { return echoSync([]byte(body), time.Unix(0, 0), &answer{}) })
		routes := f.routes()
		run("handler", func() error {
			w := httptest.NewRecorder()
			routes.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/sync", strings.NewReader(body)))
			return wantOK(w.Code)
		})
		run("loopback", func() error {
			response, err := http.Post(f.url+"/sync", "application/json", strings.NewReader(body))
			if err != nil {
				return err
			}
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			if err != nil {
				return err
			}
			return wantOK(response.StatusCode)
		})
	}
}

func wantOK(code int) error {
	if code != http.StatusOK {
		return fmt.Errorf("want 200, got %d", code)
	}
	return nil
}
