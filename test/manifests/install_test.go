package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInstall: make manifests puts the manifests into one file, in their order, and
// changes nothing in them but the image.
func TestInstall(t *testing.T) {
	const image = "registry.example.com:5000/team/greyrelease:v1.2.3"
	// Read, so that the cache of go test knows that it matters.
	if _, err := os.ReadFile("../../Makefile"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "new", "install.yaml")
	out, err := exec.Command("make", "-s", "-C", "../..", "manifests", "INSTALL="+path, "IMAGE="+image).CombinedOutput()
	if err != nil {
		t.Fatalf("cannot run make manifests: %v\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, file := range files(t) {
		want = append(want, documents(t, file)...)
	}
	want[0] = "---\n" + want[0]
	images := 0
	for i := range want {
		const shipped = "image: greyrelease:dev\n"
		images += strings.Count(want[i], shipped)
		want[i] = strings.TrimSuffix(strings.Replace(want[i], shipped, "image: "+image+"\n", 1), "\n")
	}
	got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n---\n")
	if images != 1 {
		t.Errorf("want one image to replace, got %d", images)
	}
	if !slices.Equal(want, got) {
		t.Errorf("want %d documents as in manifests/, got %d:\n%s", len(want), len(got), text)
	}
}
