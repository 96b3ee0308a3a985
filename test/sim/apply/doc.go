// Package apply holds the rules by which Metacontroller turns the children that
// a hook asks for into writes, in both of its apply modes, and the rules by
// which an API server carries out a server-side apply. It works on JSON trees
// (map[string]any, []any, string, int64, float64, bool, nil) and knows no
// cluster: the simulator and doubles of other kinds share it.
//
// No function writes into its arguments. Results may share subtrees with them,
// so a tree is never written to after it was handed on.
//
// The behaviour was read in Metacontroller 4.17 and in structured-merge-diff v6.
package apply
