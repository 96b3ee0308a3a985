package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"greyrelease.example.com/test/sim/apply"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Server is the API server with its store.
type Server struct {
	// Refuse is asked before every write is carried out. What it returns goes to
	// the client: a refusal by a webhook, a quota, a lost request.
	Refuse func(Request) error

	// Counts are the requests by client, verb and kind.
	Counts map[Count]int

	now     func() time.Time
	objects map[Ref]*Object
	version int64
	uids    int64
	watch   func(Event)
}

// Request is a request of a client.
type Request struct {
	Who  string // the client and field manager
	Verb string // create, update, patch, apply, delete or get
	Ref
	Subresource string
}

// Count is what requests are counted by.
type Count struct{ Who, Verb, Kind, Subresource string }

// Event is a change in the store. Old is nil for a new object, New for one that
// is gone.
type Event struct{ Old, New *Object }

// Ref names the object that changed.
func (e Event) Ref() Ref {
	if e.New != nil {
		return e.New.Ref
	}
	return e.Old.Ref
}

func newServer(now func() time.Time, watch func(Event)) *Server {
	return &Server{Counts: map[Count]int{}, now: now, objects: map[Ref]*Object{}, watch: watch}
}

// fork returns a server with the same objects on which nobody watches.
func (s *Server) fork() *Server {
	f := newServer(s.now, func(Event) {})
	f.version, f.uids = s.version, s.uids
	for ref, o := range s.objects {
		f.objects[ref] = o
	}
	return f
}

// Get returns the object, or nil if there is none. It is not counted.
func (s *Server) Get(ref Ref) *Object { return s.objects[ref] }

// List returns the objects of a kind sorted by namespace and name.
func (s *Server) List(k *Kind) []*Object {
	var list []*Object
	for ref, o := range s.objects {
		if ref.Kind == k {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// Create stores a new object.
func (s *Server) Create(who string, tree map[string]any) (*Object, error) {
	ref, err := refOf(tree)
	if err != nil {
		return nil, err
	}
	if err := s.receive(Request{Who: who, Verb: "create", Ref: ref}); err != nil {
		return nil, err
	}
	if s.objects[ref] != nil {
		return nil, apierrors.NewAlreadyExists(ref.resource(), ref.Name)
	}
	tree, err = s.admit(nil, tree)
	if err != nil {
		return nil, err
	}
	owners := track(nil, apply.Manager{Name: who, Operation: "Update"}, nil, tree, ref, s.now())
	return s.put(nil, ref, tree, owners), nil
}

// Update replaces an object, or only its status where subresource is "status".
// A resource version in the tree must be the current one.
func (s *Server) Update(who string, tree map[string]any, subresource string) (*Object, error) {
	ref, err := refOf(tree)
	if err != nil {
		return nil, err
	}
	if err := s.receive(Request{Who: who, Verb: "update", Ref: ref, Subresource: subresource}); err != nil {
		return nil, err
	}
	old := s.objects[ref]
	if old == nil {
		return nil, apierrors.NewNotFound(ref.resource(), ref.Name)
	}
	version, uid := apply.Text(tree, "metadata", "resourceVersion"), apply.Text(tree, "metadata", "uid")
	if version != "" && version != fmt.Sprint(old.Version) || uid != "" && uid != old.UID {
		return nil, conflict(ref)
	}
	return s.replace(who, old, tree, subresource)
}

// Patch merges a JSON merge patch into an object, or into its status or scale.
func (s *Server) Patch(who string, ref Ref, patch map[string]any, subresource string) (*Object, error) {
	if err := s.receive(Request{Who: who, Verb: "patch", Ref: ref, Subresource: subresource}); err != nil {
		return nil, err
	}
	old := s.objects[ref]
	if old == nil {
		return nil, apierrors.NewNotFound(ref.resource(), ref.Name)
	}
	if version := apply.Text(patch, "metadata", "resourceVersion"); version != "" && version != fmt.Sprint(old.Version) {
		return nil, conflict(ref)
	}
	return s.replace(who, old, mergePatch(old.Tree, patch), subresource)
}

// Apply carries out a forced server-side apply.
func (s *Server) Apply(who string, config map[string]any) (*Object, error) {
	ref, err := refOf(config)
	if err != nil {
		return nil, err
	}
	if err := s.receive(Request{Who: who, Verb: "apply", Ref: ref}); err != nil {
		return nil, err
	}
	old := s.objects[ref]
	var live map[string]any
	var owners []owner
	if old != nil {
		live, owners = old.Tree, old.owners
	}
	merged, managed, err := apply.ServerSide(live, managedBy(owners), who, config, apply.Schema(ref.Kind.Name))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	tree, err := s.admit(old, merged)
	if err != nil {
		return nil, err
	}
	next := restamp(owners, managed, apply.Manager{Name: who, Operation: "Apply"}, s.now())
	if old == nil {
		return s.put(nil, ref, tree, next), nil
	}
	return s.commit(old, systemOf(old, tree), next), nil
}

// replace makes tree the new content of an object. A write to the main resource
// leaves status alone, one to a subresource everything else.
func (s *Server) replace(who string, old *Object, tree map[string]any, subresource string) (*Object, error) {
	manager := apply.Manager{Name: who, Operation: "Update", Subresource: subresource}
	switch {
	case subresource == "status":
		next := with(old.Tree, "status", tree["status"])
		if apply.Equal(old.Tree["status"], tree["status"]) {
			return old, nil
		}
		return s.commit(old, next, touch(old.owners, manager, s.now())), nil
	case old.Kind.status:
		tree = with(tree, "status", old.Tree["status"])
	}
	tree, err := s.admit(old, systemOf(old, tree))
	if err != nil {
		return nil, err
	}
	return s.commit(old, tree, track(old.owners, manager, old.Tree, tree, old.Ref, s.now())), nil
}

// receive counts a request and asks whether it is let through.
func (s *Server) receive(r Request) error {
	s.Counts[Count{r.Who, r.Verb, r.Kind.Name, r.Subresource}]++
	if s.Refuse != nil {
		return s.Refuse(r)
	}
	return nil
}

func refOf(tree map[string]any) (Ref, error) {
	k := kindOf(tree)
	if k == nil {
		return Ref{}, apierrors.NewBadRequest(fmt.Sprintf("no matches for kind %q in version %q", tree["kind"], tree["apiVersion"]))
	}
	ref := Ref{Kind: k, Namespace: apply.Text(tree, "metadata", "namespace"), Name: apply.Text(tree, "metadata", "name")}
	if ref.Namespace == "" || ref.Name == "" {
		return Ref{}, apierrors.NewBadRequest("an object needs a namespace and a name")
	}
	return ref, nil
}

func (r Ref) resource() schema.GroupResource {
	return schema.GroupResource{Group: r.Kind.Group, Resource: r.Kind.Resource}
}

func conflict(ref Ref) error {
	return apierrors.NewConflict(ref.resource(), ref.Name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
}

// mergePatch applies a JSON merge patch: a null deletes, an object is merged,
// anything else replaces.
func mergePatch(target, patch map[string]any) map[string]any {
	merged := make(map[string]any, len(target)+len(patch))
	for k, v := range target {
		merged[k] = v
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(merged, k)
		case map[string]any:
			was, _ := merged[k].(map[string]any)
			merged[k] = mergePatch(was, v)
		default:
			merged[k] = v
		}
	}
	return merged
}

// with returns a copy of m with one field set, or without it if v is nil.
func with(m map[string]any, name string, v any) map[string]any {
	c := make(map[string]any, len(m)+1)
	for k, w := range m {
		c[k] = w
	}
	if v == nil {
		delete(c, name)
	} else {
		c[name] = v
	}
	return c
}
