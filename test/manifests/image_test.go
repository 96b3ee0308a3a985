package manifests

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// dockerfile returns the only argument that an instruction has in the last stage.
func dockerfile(t *testing.T, text, instruction string) string {
	t.Helper()
	last := text[strings.LastIndex(text, "\nFROM "):]
	found := regexp.MustCompile(`(?m)^`+instruction+` (.*)$`).FindAllStringSubmatch(last, -1)
	if len(found) != 1 {
		t.Fatalf("want one %s in the last stage, got %q", instruction, found)
	}
	return found[0][1]
}

// The image and the Deployment are written in two places and have to agree: with
// runAsNonRoot a user without a number is refused by the kubelet.
func TestImageMeetsTheDeployment(t *testing.T) {
	data, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	pod := load[appsv1.Deployment](t, "Deployment").Spec.Template.Spec
	ports := ""
	for _, port := range pod.Containers[0].Ports {
		ports += fmt.Sprintf(" %d", port.ContainerPort)
	}
	for _, test := range []struct{ instruction, want string }{
		{"FROM", "scratch"}, // no shell, nothing to keep up to date
		{"USER", fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup)},
		{"EXPOSE", ports[1:]},
		{"ENTRYPOINT", `["/greyrelease"]`},
		{"COPY", "--from=build /greyrelease /greyrelease"},
	} {
		if got := dockerfile(t, text, test.instruction); test.want != got {
			t.Errorf("%s: want %s, got %s", test.instruction, test.want, got)
		}
	}
	if len(pod.Containers[0].Command) > 0 {
		t.Errorf("want the image's entrypoint, got the command %v", pod.Containers[0].Command)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go ([0-9]+\.[0-9]+)`).FindStringSubmatch(string(mod))
	if want := "FROM golang:" + version[1] + " AS build\n"; !strings.Contains(text, want) {
		t.Errorf("want the Go of go.mod, %q, got\n%s", want, text)
	}
}
