package apply

import "hash/fnv"

// Config returns the configuration that server-side mode applies for a desired
// child: owned by the parent, without what only the server may set.
func Config(desired, owner map[string]any) map[string]any {
	return Bare(Claim(desired, owner))
}

// Bare returns obj without its status, the metadata that the API server sets, and
// the annotation of dynamic apply.
func Bare(obj map[string]any) map[string]any {
	for _, name := range systemFields {
		obj = without(obj, "metadata", name)
	}
	obj = without(obj, "status")
	return without(obj, "metadata", "annotations", LastApplied)
}

// Applied is what server-side mode remembers of its last apply of a child, to
// save a request when nothing has changed since.
type Applied struct {
	Hash            uint64
	Generation      int64
	ResourceVersion string
	UID             string
}

// Remember returns what to remember of an apply of a configuration with this
// hash that had this object as its result.
func Remember(hash uint64, result map[string]any) Applied {
	return Applied{
		Hash:            hash,
		Generation:      generation(result),
		ResourceVersion: Text(result, "metadata", "resourceVersion"),
		UID:             Text(result, "metadata", "uid"),
	}
}

// Skips tells whether the configuration with this hash need not be sent: it is
// the one sent last and the observed object has not changed since. A kind that
// has generations is compared by generation, so that somebody's edit of its
// labels and annotations goes unnoticed; other kinds by resource version.
func (a Applied) Skips(hash uint64, observed map[string]any) bool {
	g := generation(observed)
	if g == 0 && Text(observed, "metadata", "resourceVersion") != a.ResourceVersion {
		return false
	}
	return a.Hash == hash && a.UID == Text(observed, "metadata", "uid") && a.Generation == g
}

// Hash returns a hash of a configuration's content.
func Hash(config map[string]any) uint64 {
	h := fnv.New64a()
	h.Write([]byte(jsonText(config)))
	return h.Sum64()
}

func generation(obj map[string]any) int64 {
	g, _ := Field(obj, "metadata", "generation").(int64)
	return g
}
