package scenarios

import (
	"fmt"
	"strings"
	"time"
)

// Story is a parsed script.
type Story struct {
	Head   []string      // comments and settings before the first block
	Modes  []string      // apply modes it is for; empty means both
	Slow   time.Duration // how long the controllers of Kubernetes take; 0 means a moment
	Kinds  []string      // resources beside those that every installation knows
	Blocks []Block
}

// Block is some commands and what they print.
type Block struct {
	Line     int // where the block begins
	Source   []string
	Commands []Command
	Want     []string
}

// Command is one line of a block with the YAML below it.
type Command struct {
	Line  int
	Words []string
	Text  string // the line
	YAML  string
}

const divider = "----"

// Parse reads a script.
func Parse(text string) (*Story, error) {
	s := &Story{}
	for _, p := range paragraphs(text) {
		head := true
		for _, line := range p.lines {
			head = head && (strings.HasPrefix(line, "#") || setting(line))
		}
		if head && len(s.Blocks) == 0 {
			s.Head = append(s.Head, p.lines...)
			continue
		}
		b, err := parseBlock(p)
		if err != nil {
			return nil, err
		}
		s.Blocks = append(s.Blocks, b)
	}
	if len(s.Head) == 0 || !strings.HasPrefix(s.Head[0], "# ") {
		return nil, fmt.Errorf("line 1: a story begins with a comment that says why it is told")
	}
	for _, line := range s.Head {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "modes":
			s.Modes = strings.Fields(value)
		case "kinds":
			s.Kinds = strings.Fields(value)
		case "controllers":
			d, err := time.ParseDuration(value)
			if err != nil {
				return nil, fmt.Errorf("controllers: %w", err)
			}
			s.Slow = d
		}
	}
	return s, nil
}

// setting tells whether a line sets up the cluster.
func setting(line string) bool {
	return strings.HasPrefix(line, "modes: ") || strings.HasPrefix(line, "controllers: ") || strings.HasPrefix(line, "kinds: ")
}

// paragraph is a run of lines without an empty one.
type paragraph struct {
	line  int
	lines []string
}

func paragraphs(text string) []paragraph {
	var list []paragraph
	open := false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \t")
		if line == "" {
			open = false
			continue
		}
		if !open {
			list = append(list, paragraph{line: i + 1})
			open = true
		}
		last := &list[len(list)-1]
		last.lines = append(last.lines, line)
	}
	return list
}

func parseBlock(p paragraph) (Block, error) {
	b := Block{Line: p.line}
	for i, line := range p.lines {
		if line == divider {
			b.Want = p.lines[i+1:]
			break
		}
		b.Source = append(b.Source, line)
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "  "):
			if len(b.Commands) == 0 {
				return b, fmt.Errorf("line %d: there is no command before this text", p.line+i)
			}
			last := &b.Commands[len(b.Commands)-1]
			last.YAML += line + "\n"
		default:
			b.Commands = append(b.Commands, parseCommand(p.line+i, line))
		}
	}
	if len(b.Commands) == 0 && len(b.Want) > 0 {
		return b, fmt.Errorf("line %d: there is no command that prints this", p.line)
	}
	return b, nil
}

// parseCommand splits a line into words; YAML in braces at its end is one text.
func parseCommand(number int, line string) Command {
	c := Command{Line: number, Text: line}
	words := line
	if i := strings.IndexByte(line, '{'); i >= 0 {
		words, c.YAML = line[:i], line[i:]+"\n"
	}
	c.Words = splitWords(words)
	return c
}

// splitWords splits at spaces, but not within double quotes, which it drops.
func splitWords(text string) []string {
	var words []string
	var word strings.Builder
	quoted, inWord := false, false
	for _, r := range text {
		switch {
		case r == '"':
			quoted, inWord = !quoted, true
		case r == ' ' && !quoted:
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// Format writes the script with what its commands printed.
func (s *Story) Format(printed [][]string) string {
	var b strings.Builder
	b.WriteString(strings.Join(s.Head, "\n") + "\n")
	for i, block := range s.Blocks {
		b.WriteString("\n" + strings.Join(block.Source, "\n") + "\n")
		if len(printed[i]) > 0 {
			b.WriteString(divider + "\n" + strings.Join(printed[i], "\n") + "\n")
		}
	}
	return b.String()
}
