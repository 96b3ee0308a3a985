package kustomize

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/yaml"
)

// own builds a kustomization of somebody's own: the manifests with an overlay, and
// components on top of that.
func own(t *testing.T, overlay string, components ...string) resmap.ResMap {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(manifests)); err != nil {
		t.Fatal(err)
	}
	write := func(folder, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "kustomization.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	chosen := "resources: [../manifests]\n"
	if overlay != "" {
		if err := os.CopyFS(filepath.Join(dir, "chosen"), os.DirFS(filepath.Join(manifests, "overlays", overlay))); err != nil {
			t.Fatal(err)
		}
		chosen += "patches: [{path: compositecontroller.yaml}]\n"
	}
	write("chosen", chosen)
	text := "resources: [../chosen]\ncomponents:\n"
	for _, component := range components {
		text += "- ../manifests/components/" + component + "\n"
	}
	write("own", text)
	return build(t, filepath.Join(dir, "own"))
}

type webhook struct {
	Path    string
	Timeout string
	Service struct {
		Name, Namespace, Protocol string
		Port                      int
	}
}

type secured struct {
	EndpointConfigs []map[string]any
	Hooks           map[string]struct{ Webhook webhook }
}

func only(t *testing.T, built resmap.ResMap, kind string, into any) {
	t.Helper()
	found := 0
	for _, r := range built.Resources() {
		if r.GetKind() != kind {
			continue
		}
		found++
		if err := yaml.Unmarshal([]byte(r.MustYaml()), into); err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 {
		t.Fatalf("want one %s, got %d", kind, found)
	}
}

// With components the hooks are at the Service's port for HTTPS, the service has the
// flags with files of volumes that are mounted, and what Metacontroller needs for a call
// is said for the host that it calls.
func TestComponents(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(manifests, "components"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if want := []string{"mtls", "prometheus", "secret-snapshots", "tls", "token"}; !slices.Equal(want, names) {
		t.Errorf("want the components %v, got %v", want, names)
	}
	base := build(t, manifests)
	for _, row := range []struct {
		overlay    string
		components []string
		hooks      int
		flags      []string
		settings   []string
	}{
		{"", []string{"tls"}, 1, []string{"tls-cert-file", "tls-key-file"}, []string{"caBundle", "host"}},
		{"", []string{"tls", "mtls"}, 1, []string{"tls-cert-file", "tls-key-file", "tls-client-ca-file"}, []string{"caBundle", "clientTLS", "host"}},
		{"", []string{"tls", "token"}, 1, []string{"tls-cert-file", "tls-key-file", "auth-token-file"}, []string{"authorization", "caBundle", "host"}},
		{"all", []string{"tls", "tls/customize", "mtls", "token"}, 2, []string{"tls-cert-file", "tls-key-file", "tls-client-ca-file", "auth-token-file"}, []string{"authorization", "caBundle", "clientTLS", "host"}},
	} {
		name := strings.Join(append([]string{row.overlay}, row.components...), " ")
		built := own(t, row.overlay, row.components...)
		var controller struct{ Spec secured }
		only(t, built, "CompositeController", &controller)
		if got := len(controller.Spec.Hooks); row.hooks != got {
			t.Errorf("%s: want %d hooks, got %d", name, row.hooks, got)
		}
		for hook, h := range controller.Spec.Hooks {
			if s := h.Webhook.Service; s.Protocol != "https" || s.Port != 443 || h.Webhook.Path != "/"+hook || h.Webhook.Timeout == "" {
				t.Errorf("%s: want the %s hook by HTTPS, got %+v", name, hook, h.Webhook)
			}
		}
		if n := len(controller.Spec.EndpointConfigs); n != 1 {
			t.Fatalf("%s: want settings for one host, got %d", name, n)
		}
		settings := controller.Spec.EndpointConfigs[0]
		var keys []string
		for key := range settings {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		if !slices.Equal(row.settings, keys) || settings["host"] != "greyrelease.greyrelease-system:443" {
			t.Errorf("%s: want %v for the Service, got %v", name, row.settings, settings)
		}
		var service struct {
			Spec struct {
				Ports []struct {
					Name, TargetPort string
					Port             int
				}
			}
		}
		only(t, built, "Service", &service)
		if p := service.Spec.Ports[0]; p.Name != "https" || p.Port != 443 || p.TargetPort != "http" {
			t.Errorf("%s: want port 443 for the hooks, got %+v", name, p)
		}
		checkFlags(t, name, built, row.flags)
		// What the components are not about stays as it is.
		for _, was := range base.Resources() {
			kind := was.GetKind()
			if kind == "CompositeController" || kind == "Deployment" || kind == "Service" {
				continue
			}
			is, err := built.GetById(was.OrgId())
			if err != nil || !reflect.DeepEqual(plain(t, was.MustYaml()), plain(t, is.MustYaml())) {
				t.Errorf("%s: want %s %s as it was, got %v", name, kind, was.GetName(), err)
			}
		}
	}
}

func checkFlags(t *testing.T, name string, built resmap.ResMap, want []string) {
	t.Helper()
	type probe struct{ HTTPGet struct{ Scheme string } }
	var deployment struct {
		Spec struct {
			Template struct {
				Spec struct {
					Volumes    []struct{ Name string }
					Containers []struct {
						Args                          []string
						VolumeMounts                  []struct{ Name, MountPath, SubPath string }
						ReadinessProbe, LivenessProbe probe
					}
				}
			}
		}
	}
	only(t, built, "Deployment", &deployment)
	pod := deployment.Spec.Template.Spec
	c := pod.Containers[0]
	if c.ReadinessProbe.HTTPGet.Scheme != "HTTPS" || c.LivenessProbe.HTTPGet.Scheme != "HTTPS" {
		t.Errorf("%s: want probes by HTTPS, got %+v", name, c)
	}
	if c.Args[0] != "--max-buffered=128Mi" {
		t.Errorf("%s: want the flags of the base first, got %v", name, c.Args)
	}
	var flags []string
	for _, arg := range c.Args[1:] {
		flag, file, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags = append(flags, flag)
		at := -1
		for i, m := range c.VolumeMounts {
			if filepath.Dir(file) == m.MountPath && m.SubPath == "" {
				at = i
			}
		}
		if at < 0 || !slices.ContainsFunc(pod.Volumes, func(v struct{ Name string }) bool { return v.Name == c.VolumeMounts[at].Name }) {
			t.Errorf("%s: want %s in a volume that is mounted as a folder, got %+v", name, file, c.VolumeMounts)
		}
	}
	if !slices.Equal(want, flags) {
		t.Errorf("%s: want the flags %v, got %v", name, want, flags)
	}
}
