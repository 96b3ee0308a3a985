package kustomize

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const release = `apiVersion: greyrelease.example.com/v1
kind: GreyRelease
metadata: {name: web}
spec:
  targetVersion: "1.0"
  template:
    spec:
      volumes:
      - {name: settings, configMap: {name: web-settings}}
      containers:
      - name: web
        image: nginx
        envFrom:
        - {configMapRef: {name: web-settings}}
        env:
        - {name: COLOR, valueFrom: {configMapKeyRef: {name: web-settings, key: COLOR}}}
`

// The kustomization that docs/operations.md shows gives a ConfigMap a name by its
// content, wherever the template refers to it: other content is another revision.
func TestConfigurationTakesPartInARelease(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n# ([a-z]+\\.yaml)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("want two files in docs/operations.md, got %d", len(blocks))
	}
	names := map[string]bool{}
	for _, color := range []string{"green", "blue"} {
		dir := t.TempDir()
		files := map[string]string{"web.yaml": release}
		for _, block := range blocks {
			files[block[1]] = strings.Replace(block[2], "COLOR=green", "COLOR="+color, 1)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		built := build(t, dir)
		name, web := "", ""
		for _, r := range built.Resources() {
			switch r.GetKind() {
			case "ConfigMap":
				name = r.GetName()
			case "GreyRelease":
				web = r.MustYaml()
			}
		}
		if !strings.HasPrefix(name, "web-settings-") || strings.Count(web, "name: "+name+"\n") != 3 {
			t.Errorf("want the name of the ConfigMap in three places, %s, got\n%s", name, web)
		}
		names[name] = true
	}
	if len(names) != 2 {
		t.Errorf("want another name for other content, got %v", names)
	}
}
