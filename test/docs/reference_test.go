package docs

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write docs/api.md")

// root is the folder of the repository.
const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReferenceIsCurrent(t *testing.T) {
	got, err := Reference([]byte(read(t, "manifests/00-crd.yaml")), read(t, "hooks/greyrelease/types.go"), read(t, "hooks/rollout/record.go"))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, "docs/api.md"), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, "docs/api.md"); want != got {
		t.Error("docs/api.md is stale: run go test ./test/docs -update")
	}
}
