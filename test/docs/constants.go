package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// constant is a string constant of a Go file with its comment.
type constant struct {
	value string
	doc   string
}

// constants reads the string constants of one type, "" for those without one,
// from Go source, in their order. The comment's first words, the Go name and the
// verb or colon behind it, are left to the reader of the table.
func constants(source, typeName string) ([]constant, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("cannot read Go source: %w", err)
	}
	var found []constant
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			v := spec.(*ast.ValueSpec)
			name, _ := v.Type.(*ast.Ident)
			if name == nil && typeName != "" || name != nil && name.Name != typeName {
				continue
			}
			literal, ok := v.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				return nil, fmt.Errorf("cannot read constant %s: %w", v.Names[0], err)
			}
			found = append(found, constant{value, comment(v)})
		}
	}
	return found, nil
}

// comment is the comment of a constant without the words that tie it to its name:
// "PhasePaused waits for a soak." is "waits for a soak.", and so is
// "ReasonPaused: waits for a soak.".
func comment(v *ast.ValueSpec) string {
	text := paragraph(v.Doc.Text())
	if text == "" {
		text = paragraph(v.Comment.Text())
	}
	name := v.Names[0].Name
	text = strings.TrimPrefix(text, name+": ")
	return strings.TrimPrefix(strings.TrimPrefix(text, name+" "), "is ")
}
