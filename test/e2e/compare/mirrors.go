package main

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mirror creates a mirror with a spec, see mirrorHook.
func (t *teller) mirror(spec string) {
	t.create("mirrors", "apiVersion: "+mirrorGroup+"/v1\nkind: Mirror\nmetadata: {name: m}\nspec:\n"+indent(spec))
	t.still()
}

// reflect gives the mirror another spec.
func (t *teller) reflect(spec string) {
	t.replace("mirrors", "m", indent(spec))
	t.still()
}

// still waits for parents whose hook holds nothing back.
func (t *teller) still() { t.silent(1500 * time.Millisecond) }

func config(name, data string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `}, data: ` + data + `}`
}

func children(list ...string) string {
	return "answer: {children: [" + strings.Join(list, ", ") + "]}"
}

// mirrorStories have Metacontroller do what GreyRelease does not ask for.
var mirrorStories = []story{
	{name: "m-in-place", tell: func(t *teller) {
		t.mirror(children(config("a", "{x: '1', v: '2'}"), config("b", "{k: v}")))
		t.reflect(children(config("a", "{x: '3'}")))
		t.patch("configmaps", "a", `{"data": {"z": "9", "x": "8"}, "metadata": {"annotations": {"who": "me"}}}`)
		t.still()
		t.reflect(children(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {l: m}, annotations: {who: hook}, resourceVersion: "1", uid: u, generation: 4}, status: {x: v}}`))
		t.reflect(children())
	}},
	{name: "m-recreate", tell: func(t *teller) {
		service := func(ports string) string {
			return `{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {a: b}, ports: ` + ports + `}}`
		}
		t.mirror(children(service("[{name: web, port: 80, protocol: TCP, targetPort: 80}]")))
		t.reflect(children(service("[{name: web, port: 81, protocol: TCP, targetPort: 80}]")))
		t.patch("services", "s", `{"metadata": {"labels": {"l": "x"}}}`)
		t.still()
		t.patch("services", "s", `{"spec": {"selector": {"a": "c"}}}`)
		t.still()
		t.reflect(children(service("[{name: udp, port: 53, protocol: UDP, targetPort: 53}, {name: tcp, port: 54, protocol: TCP, targetPort: 54}]")))
	}},
	{name: "m-on-delete", tell: func(t *teller) {
		secret := func(value string) string {
			return `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: ` + value + `}}`
		}
		t.mirror(children(secret("one")))
		t.reflect(children(secret("two")))
		t.patch("secrets", "s", `{"metadata": {"labels": {"l": "x"}}}`)
		t.still()
		t.delete("secrets", "s", metav1.DeletePropagationBackground)
		t.still()
		t.reflect(children())
	}},
	{name: "m-colliding-keys", tell: func(t *teller) {
		deployment := func(ports string) string {
			return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
				spec: {containers: [{name: c, image: i, ports: ` + ports + `}]}}}}`
		}
		t.mirror(children(deployment("[{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]")))
		t.patch("mirrors", "m", `{"metadata": {"labels": {"poke": "1"}}}`)
		t.still()
		t.reflect(children(deployment("[{containerPort: 80}, {containerPort: 81}]")))
		t.reflect(children(deployment("[{containerPort: 81, name: x}]")))
	}},
	{name: "m-refused", tell: func(t *teller) {
		t.mirror(children(config("a", "{k: v}"), `{apiVersion: v1, kind: ConfigMap, metadata: {name: Bad_Name}}`, config("c", "{k: 5}"), config("d", "{k: v}")))
		t.reflect(children(config("a", "{x: '1'}"), config("d", "null")))
	}},
	{name: "m-kinds", tell: func(t *teller) {
		// A kind that is no child, one that there is not, and one of another version.
		t.mirror(children(config("a", "{k: v}"), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}`))
		t.reflect(children(config("b", "{k: v}"), `{apiVersion: example.com/v1, kind: Nothing, metadata: {name: none}}`))
		t.reflect(children(config("b", "{k: v}"), `{apiVersion: v1, metadata: {name: none}}`))
		t.reflect(children(config("b", "{k: v}"), `{apiVersion: v1, kind: ConfigMap, metadata: {name: e, namespace: default-not}}`))
		t.reflect(children(`{apiVersion: v1, kind: ConfigMap, metadata: {}}`))
	}},
	{name: "m-labels", tell: func(t *teller) {
		t.mirror("answer: {resyncAfterSeconds: 1, children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {controller-uid: other}}}]}")
		t.reflect(children(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {k: 5}}}`))
		t.reflect(children(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {k: "5"}}}`))
		t.patch("configmaps", "a", `{"metadata": {"labels": {"controller-uid": "other"}}}`)
		t.still()
		t.relabel("configmaps", "mirrors", "m")
		t.still()
	}},
	{name: "m-twice", tell: func(t *teller) {
		t.mirror(children(config("a", "{x: '1'}"), config("a", "{x: '2'}")))
	}},
	{name: "m-answers", tell: func(t *teller) {
		t.mirror(children(config("a", "{k: v}")))
		for _, spec := range []string{
			"text: nonsense",
			"text: '[]'",
			`text: '{"children": {}}'`,
			`text: '{"children": [], "children": [], "extra": 1}'`,
			`text: '{"Status": {"phase": "x"}}'`,
			`text: '{"status": {}, "resyncAfterSeconds": "5"}'`,
			`text: '{"status": "fine"}'`,
			"{code: 500, text: 'our bug'}",
			"{code: 201, text: '{}'}",
			"{code: 204}",
			"{code: 304}",
			"{code: 404, text: 'not here'}",
			"delaySeconds: 2.5",
			"text: '{}'",
			`{text: '{"status": null, "children": null}'}`,
			children(config("b", "{k: v}")),
		} {
			t.reflect(spec)
		}
	}},
	{name: "m-busy", tell: func(t *teller) {
		t.mirror(`{code: 429, header: {Retry-After: "2"}}`)
		t.must("plant", t.hook.plant(t.namespace, children(config("a", "{k: v}"))))
		t.silent(3 * time.Second)
		t.must("plant", t.hook.plant(t.namespace, `{code: 429, header: {Retry-After: "Mon, 02 Jan 2006 15:04:05 GMT"}}`))
		t.patch("mirrors", "m", `{"metadata": {"labels": {"poke": "1"}}}`)
		t.still()
		t.must("plant", t.hook.plant(t.namespace, children()))
		t.still()
	}},
	{name: "m-resync", tell: func(t *teller) {
		t.mirror("answer: {resyncAfterSeconds: 1.5, children: [" + config("a", "{k: v}") + "]}")
		t.must("plant", t.hook.plant(t.namespace, children(config("b", "{k: v}"))))
		t.silent(3 * time.Second)
		t.must("plant", t.hook.plant(t.namespace, children(config("c", "{k: v}"))))
		t.silent(3 * time.Second)
	}},
	{name: "m-status", tell: func(t *teller) {
		t.mirror("answer: {status: {count: 1, f: 1.5, big: 9007199254740993, list: [], none: null}}")
		t.patch("mirrors", "m", `{"status": {"more": "x"}}`, "status")
		t.still()
		t.reflect(`answer: {status: {observedGeneration: 99, children: null}}`)
	}},
	{name: "m-finalized", tell: func(t *teller) {
		t.create("mirrors", "{apiVersion: "+mirrorGroup+"/v1, kind: Mirror, metadata: {name: m, finalizers: [metacontroller.io/compositecontroller-mirrors, example.com/held]}, spec: {answer: {finalized: true, children: ["+config("a", "{k: v}")+"]}}}")
		t.still()
		t.delete("mirrors", "m", metav1.DeletePropagationBackground)
		t.still()
		t.reflect("answer: {finalized: true}")
		t.patch("mirrors", "m", `{"metadata": {"finalizers": null}}`)
		t.still()
	}},
	{name: "m-claims", tell: func(t *teller) {
		t.mirror(children(config("a", "{k: v}")))
		uid := string(t.get("mirrors", "m").GetUID())
		t.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: stray, labels: {controller-uid: "`+uid+`"}}}`)
		t.still()
		t.create("secrets", `{apiVersion: v1, kind: Secret, metadata: {name: owned, labels: {controller-uid: "`+uid+`"}, ownerReferences: [
			{apiVersion: v1, kind: ConfigMap, name: other, uid: 11111111-1111-1111-1111-111111111111, controller: true}]}}`)
		t.still()
		t.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: shared, labels: {controller-uid: "`+uid+`"}, ownerReferences: [
			{apiVersion: test.greyrelease.example.com/v1, kind: Mirror, name: m, uid: "`+uid+`"}]}}`)
		t.still()
		t.patch("configmaps", "a", `{"metadata": {"ownerReferences": null}}`)
		t.still()
		t.patch("configmaps", "a", `{"metadata": {"annotations": {"metacontroller.k8s.io/last-applied-configuration": "nonsense"}}}`)
		t.still()
		t.reflect(children(config("a", "{x: '1'}")))
		t.patch("configmaps", "a", `{"metadata": {"finalizers": ["example.com/held"]}}`)
		t.still()
		t.delete("configmaps", "a", metav1.DeletePropagationBackground)
		t.still()
		t.reflect(children(config("a", "{x: '2'}")))
		t.patch("configmaps", "a", `{"metadata": {"finalizers": null}}`)
		t.still()
	}},
	{name: "m-related", tell: func(t *teller) {
		for _, manifest := range []string{
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {l: x}}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: two}}`,
		} {
			t.create("configmaps", manifest)
		}
		t.mirror("related: [{apiVersion: v1, resource: configmaps, namespace: " + t.namespace + ", labelSelector: {matchLabels: {l: x}}}]")
		t.patch("configmaps", "two", `{"metadata": {"labels": {"l": "x"}}}`)
		t.still()
		t.patch("configmaps", "one", `{"metadata": {"labels": {"l": null}}}`)
		t.still()
		for _, related := range []string{
			"{apiVersion: v1, resource: configmaps, names: [two]}",
			"{apiVersion: v1, resource: configmaps, namespace: " + t.namespace + "}",
			"{apiVersion: v1, resource: configmaps, namespace: " + t.namespace + ", names: [one]}",
			"{apiVersion: v1, resource: configmaps, names: [two], labelSelector: {}}",
			"{apiVersion: v1, resource: configmaps, namespace: kube-public, namespaceSelector: {}}",
			"{apiVersion: v1, resource: configmaps, labelSelector: {matchLabels: {l: x}}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: " + t.namespace + "}}}",
			"{apiVersion: v1, resource: namespaces, names: [default]}",
			"{apiVersion: v1, resource: namespaces, namespaceSelector: {}}",
			"{apiVersion: v1, resource: nothings}",
			"{apiVersion: v1, resource: endpoints, names: [none]}",
			"{apiVersion: v1, resource: endpoints, labelSelector: {matchExpressions: [{key: a, operator: Wrong}]}}",
		} {
			t.reflect("related: [" + related + "]")
		}
		t.reflect("related: [{apiVersion: v1, resource: services, names: [late], namespace: " + t.namespace + "}]")
		t.create("services", `{apiVersion: v1, kind: Service, metadata: {name: late}, spec: {ports: [{port: 80}]}}`)
		t.still()
		t.delete("services", "late", metav1.DeletePropagationBackground)
		t.still()
	}},
	{name: "m-old-hook", tell: func(t *teller) {
		t.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {l: x}}}`)
		t.create("oldmirrors", "{apiVersion: "+mirrorGroup+"/v1, kind: OldMirror, metadata: {name: o}, spec: {related: [{apiVersion: v1, resource: configmaps}], answer: {extra: 1, children: ["+config("a", "{k: v}")+"]}}}")
		t.still()
		for _, related := range []string{
			"{apiVersion: v1, resource: configmaps, labelSelector: {matchLabels: {l: x}}}",
			"{apiVersion: v1, resource: configmaps, namespace: kube-public}",
			"{apiVersion: v1, resource: configmaps, namespace: kube-public, labelSelector: {}}",
			"{apiVersion: v1, resource: configmaps, namespaceSelector: {}}",
			"{apiVersion: v1, resource: namespaces, names: [default]}",
			"{apiVersion: v1, resource: configmaps, names: [one]}",
		} {
			t.patch("oldmirrors", "o", `{spec: {related: [`+related+`]}}`)
			t.still()
		}
	}},
}
