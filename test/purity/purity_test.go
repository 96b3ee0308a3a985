package purity

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestHooksOnlyCompute(t *testing.T) {
	findings, err := Tree(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		t.Error(finding)
	}
}

// The checker itself: each violation is found where it stands, and nothing else.
func TestFile(t *testing.T) {
	for _, tt := range []struct {
		why, name, source string
		want              []string
	}{
		{"nothing but computing", "hooks/greyrelease/x.go", `import ("fmt"; "strings"; "time"; corev1 "k8s.io/api/core/v1"; metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
			"greyrelease.example.com/hooks/rollout"; "greyrelease.example.com/hooks/composite")
			func f(now time.Time) string { return fmt.Sprint(now.Add(time.Second), metav1.NewTime(now), strings.ToUpper("x"), corev1.Pod{}, rollout.X, composite.Y) }`, nil},
		{"the clock", "hooks/rollout/x.go", `import "time"
			var a = time.Now()
			var b = time.Since(time.Time{})
			var c = time.Now`, []string{"3: uses time.Now", "4: uses time.Since", "5: uses time.Now"}},
		{"the clock under another name", "hooks/rollout/x.go", `import clock "time"
			func f() { clock.Sleep(1); <-clock.After(1) }`, []string{"3: uses clock.Sleep", "3: uses a channel", "3: uses clock.After"}},
		{"timers", "hooks/rollout/x.go", `import "time"
			func f() { time.Tick(1); time.AfterFunc(1, nil); time.NewTimer(1); time.NewTicker(1); time.Until(time.Time{}) }`,
			[]string{"3: uses time.Tick", "3: uses time.AfterFunc", "3: uses time.NewTimer", "3: uses time.NewTicker", "3: uses time.Until"}},
		{"the time zone", "hooks/rollout/x.go", `import "time"
			func f(t time.Time) { t.Local(); t.In(time.Local); time.LoadLocation("") }`,
			[]string{"3: uses Local()", "3: uses time.Local", "3: uses time.LoadLocation"}},
		{"the clock of the API", "hooks/greyrelease/x.go", `import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
			var a = metav1.Now()
			var b = metav1.NowMicro()`, []string{"3: uses metav1.Now", "4: uses metav1.NowMicro"}},
		{"the clock behind a condition", "hooks/greyrelease/x.go", `import "k8s.io/apimachinery/pkg/api/meta"
			func f() { meta.FindStatusCondition(nil, ""); meta.SetStatusCondition(nil, x) }`, []string{"3: uses meta.SetStatusCondition"}},
		{"a variable of the name of a package is none", "hooks/greyrelease/x.go", `func f(time interface{ Now() int }) int { return time.Now() }`, nil},
		{"imports", "hooks/history/x.go", `import (
			"context"
			"io/fs"
			"log/slog"
			"math/rand/v2"
			"net/http"
			"os"
			"k8s.io/klog/v2"
			"k8s.io/apimachinery/pkg/util/rand"
			"k8s.io/apimachinery/pkg/util/wait"
		)`, []string{"3: imports context", "4: imports io/fs", "5: imports log/slog", "6: imports math/rand/v2", "7: imports net/http", "8: imports os",
			"9: imports k8s.io/klog/v2", "10: imports k8s.io/apimachinery/pkg/util/rand", "11: imports k8s.io/apimachinery/pkg/util/wait"}},
		{"ways to hide an import", "hooks/history/x.go", `import . "fmt"
			import _ "time"
			import "C"
			import "unsafe"`, []string{"2: imports fmt as .", "3: imports time as _", "4: imports C", "5: imports unsafe"}},
		{"prints", "hooks/history/x.go", `import "fmt"
			func f() { fmt.Println(); fmt.Printf(""); println() }`, []string{"3: uses fmt.Println", "3: uses fmt.Printf", "3: uses println"}},
		{"goroutines and channels", "hooks/rollout/x.go", `func f(c chan int) {
			go f(c)
			c <- 1
			<-c
			select {}
		}`, []string{"2: uses a channel", "3: starts a goroutine", "4: uses a channel", "5: uses a channel", "6: uses a channel"}},
		{"the core knows nobody", "hooks/rollout/x.go", `import "greyrelease.example.com/hooks/composite"
			import "greyrelease.example.com/hooks/rollout/inner"`,
			[]string{"2: imports greyrelease.example.com/hooks/composite", "3: imports greyrelease.example.com/hooks/rollout/inner"}},
		{"the protocol knows no release", "hooks/composite/x.go", `import (
			"greyrelease.example.com/hooks/jsontree"
			"greyrelease.example.com/hooks/greyrelease"
			"greyrelease.example.com/hooks/history"
			"greyrelease.example.com/hooks/rollout"
		)`, []string{"4: imports greyrelease.example.com/hooks/greyrelease", "5: imports greyrelease.example.com/hooks/history", "6: imports greyrelease.example.com/hooks/rollout"}},
		{"history knows no hook", "hooks/history/x.go", `import "greyrelease.example.com/hooks/greyrelease"`, []string{"2: imports greyrelease.example.com/hooks/greyrelease"}},
		{"nothing of the outside", "hooks/greyrelease/x.go", `import (
			"greyrelease.example.com/server"
			"greyrelease.example.com/test/sim"
			"greyrelease.example.com/hooksmith"
			"github.com/go-chi/chi/v5"
		)`, []string{"3: imports greyrelease.example.com/server", "4: imports greyrelease.example.com/test/sim", "5: imports greyrelease.example.com/hooksmith", "6: imports github.com/go-chi/chi/v5"}},
	} {
		findings, err := File(tt.name, []byte("package x\n"+tt.source))
		if err != nil {
			t.Errorf("%s: %v", tt.why, err)
			continue
		}
		for i := range findings {
			findings[i] = strings.TrimPrefix(findings[i], tt.name+":")
		}
		if !slices.Equal(tt.want, findings) {
			t.Errorf("%s: want\n%s\ngot\n%s", tt.why, strings.Join(tt.want, "\n"), strings.Join(findings, "\n"))
		}
	}
}

// Tests may do what they like; files in folders of folders are looked at too, and
// a file that cannot be read is no pass.
func TestTree(t *testing.T) {
	clock := []byte("package x\nimport \"time\"\nvar now = time.Now()")
	findings, err := Tree(fstest.MapFS{
		"hooks/rollout/x.go":      {Data: clock},
		"hooks/rollout/x_test.go": {Data: clock},
		"hooks/history/a/b/x.go":  {Data: clock},
		"server/x.go":             {Data: clock},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"hooks/history/a/b/x.go:3: uses time.Now", "hooks/rollout/x.go:3: uses time.Now"}; !slices.Equal(want, findings) {
		t.Errorf("want %v, got %v", want, findings)
	}
	if _, err := Tree(fstest.MapFS{"hooks/rollout/x.go": {Data: []byte("package")}}); err == nil {
		t.Error("want an error for a file that does not parse, got none")
	}
	if _, err := Tree(fstest.MapFS{}); err == nil {
		t.Error("want an error without hooks, got none")
	}
}
