package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	_ "embed" // for the CRDs of Metacontroller
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

//go:embed metacontroller-crds.yaml
var metacontrollerCRDs []byte

// install applies the CRDs of Metacontroller and of the Gateway API, and then
// GreyRelease.
func (c *Cluster) install(ctx context.Context) error {
	if err := os.WriteFile(c.file("metacontroller-crds.yaml"), metacontrollerCRDs, 0o644); err != nil {
		return fmt.Errorf("cannot write CRDs: %w", err)
	}
	// Too large for the annotation of a client-side apply.
	if _, err := c.Kubectl(ctx, "create", "-f", c.file("metacontroller-crds.yaml")); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/compositecontrollers.metacontroller.k8s.io"); err != nil {
		return err
	}
	if err := c.InstallGatewayAPI(ctx, StandardChannel); err != nil {
		return err
	}
	if err := c.grant(ctx); err != nil {
		return err
	}
	return c.Install(ctx)
}

// Install applies manifests/ and the overlay as shipped, through an overlay of its
// own that changes nothing but the addresses of the webhooks.
func (c *Cluster) Install(ctx context.Context) error {
	overlay, err := c.writeOverlay()
	if err != nil {
		return err
	}
	if err := c.grantSecrets(ctx); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "apply", "-k", overlay); err != nil {
		return err
	}
	// Discovery knows a new kind a moment after it is established.
	return c.eventually(ctx, func(ctx context.Context) error {
		_, err := c.Kubectl(ctx, "get", "gr", "--all-namespaces")
		return err
	})
}

// writeOverlay writes kustomizations on top of manifests/ and returns the folder of the
// last: one takes in the overlay, and the next the components, which are made for the
// CompositeController that comes of it.
func (c *Cluster) writeOverlay() (string, error) {
	chosen := map[string]any{"resources": []string{"manifests"}}
	hooks := []string{"sync"}
	if c.Overlay != "" {
		patch, err := os.ReadFile(filepath.Join(c.Root, "manifests", "overlays", c.Overlay, "compositecontroller.yaml"))
		if err != nil {
			return "", fmt.Errorf("cannot read overlay: %w", err)
		}
		hooks = append(hooks, "customize")
		chosen["patches"] = []map[string]any{{"patch": string(patch)}}
	}
	if _, err := c.writeKustomization("chosen", chosen); err != nil {
		return "", err
	}
	var components []string
	for _, component := range c.Components {
		components = append(components, filepath.Join("manifests", "components", component))
	}
	secured := map[string]any{"resources": []string{"../chosen"}, "components": components}
	if _, err := c.writeKustomization("secured", secured); err != nil {
		return "", err
	}
	var operations []map[string]any
	if slices.Contains(c.Components, "tls") {
		operations = append(operations, map[string]any{"op": "replace", "path": "/spec/endpointConfigs/0/host", "value": c.ServiceAddress()})
	}
	for _, hook := range hooks {
		path := "/spec/hooks/" + hook + "/webhook/"
		operations = append(operations,
			map[string]any{"op": "remove", "path": path + "service"},
			map[string]any{"op": "remove", "path": path + "path"},
			map[string]any{"op": "add", "path": path + "url", "value": c.ServiceURL() + "/" + hook})
	}
	addresses, err := yaml.Marshal(operations)
	if err != nil {
		return "", fmt.Errorf("cannot write overlay: %w", err)
	}
	return c.writeKustomization("overlay", map[string]any{
		"resources": []string{"../secured"},
		"patches": []map[string]any{{
			"target": map[string]string{"kind": "CompositeController", "name": "greyrelease"},
			"patch":  string(addresses),
		}},
	})
}

// writeKustomization writes one to a folder of that name, and returns the folder. What
// it names below manifests is that of the repository: kustomize takes no absolute paths.
func (c *Cluster) writeKustomization(name string, fields map[string]any) (string, error) {
	dir := c.file(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot write overlay: %w", err)
	}
	root, err := filepath.Rel(dir, c.Root)
	if err != nil {
		return "", fmt.Errorf("cannot write overlay: %w", err)
	}
	for _, key := range []string{"resources", "components"} {
		paths, _ := fields[key].([]string)
		for i, path := range paths {
			if strings.HasPrefix(path, "manifests") {
				paths[i] = filepath.Join(root, path)
			}
		}
	}
	fields["apiVersion"], fields["kind"] = "kustomize.config.k8s.io/v1beta1", "Kustomization"
	text, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("cannot write overlay: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o644); err != nil {
		return "", fmt.Errorf("cannot write overlay: %w", err)
	}
	return dir, nil
}

// StartService starts the service and waits until it is ready.
func (c *Cluster) StartService(ctx context.Context) error {
	return c.startService(ctx, c.Programs["greyrelease"])
}

func (c *Cluster) startService(ctx context.Context, program string) error {
	err := c.runAs("greyrelease", program, append([]string{
		"--listen=" + c.ServiceAddress(),
		fmt.Sprintf("--metrics-listen=127.0.0.1:%d", c.ports.metrics),
		"--drain-delay=0s",
	}, c.ServiceFlags...)...)
	if err != nil {
		return err
	}
	// As a kubelet, which asks for readiness without a look at the certificate.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	return c.eventually(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.ServiceURL()+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("service is not ready: %s", response.Status)
		}
		return nil
	})
}

// StartMetacontroller starts Metacontroller with the apply strategy in Apply and
// the rates that the documentation asks for. It syncs once its caches are filled.
func (c *Cluster) StartMetacontroller(context.Context) error {
	return c.run("metacontroller", append([]string{
		"--kubeconfig=" + c.Kubeconfig(Metacontroller),
		"--apply-strategy=" + c.Apply,
		"--client-go-qps=200", "--client-go-burst=400", "--workers=10",
		fmt.Sprintf("--metrics-address=127.0.0.1:%d", c.ports.mcMetrics),
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", c.ports.mcHealth),
	}, c.MetacontrollerFlags...)...)
}

// Kubectl runs kubectl as the tester and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.command(exec.CommandContext(ctx, c.Programs["kubectl"], args...))
}

// Shell runs a command line as a user would paste it, with kubectl in the path.
func (c *Cluster) Shell(ctx context.Context, line string) (string, error) {
	return c.command(exec.CommandContext(ctx, "sh", "-c", line))
}

// Script runs lines one after the other in one shell, as a user would who works in
// a folder and has chosen a namespace. The first that fails ends it.
func (c *Cluster) Script(ctx context.Context, folder, namespace string, lines ...string) (string, error) {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig(Tester))
	if err != nil {
		return "", fmt.Errorf("cannot read kubeconfig: %w", err)
	}
	config.Contexts[config.CurrentContext].Namespace = namespace
	kubeconfig := c.file(namespace + ".kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return "", fmt.Errorf("cannot write kubeconfig: %w", err)
	}
	command := exec.CommandContext(ctx, "sh", "-ec", strings.Join(lines, "\n"))
	command.Dir = folder
	command.Env = []string{"KUBECONFIG=" + kubeconfig}
	return c.command(command)
}

// command runs a command with the tester's kubeconfig, unless it brings another
// one in its environment.
func (c *Cluster) command(command *exec.Cmd) (string, error) {
	command.Env = append(append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(Tester)), append(command.Env,
		"PATH="+filepath.Dir(c.Programs["kubectl"])+string(os.PathListSeparator)+os.Getenv("PATH"),
		// The caches of discovery belong to this cluster, not to the user's.
		"HOME="+c.Dir)...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("cannot run %v: %w\n%s", command.Args, err, out.String())
	}
	return out.String(), nil
}
