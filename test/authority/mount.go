package authority

import (
	"fmt"
	"os"
	"path/filepath"
)

// Mounted is a folder of files as Kubernetes mounts a Secret: each is a symbolic link
// through ..data, which is changed in one step.
type Mounted struct {
	dir   string
	round int
}

// Mount makes one in an empty folder.
func Mount(dir string, files map[string][]byte) (*Mounted, error) {
	m := &Mounted{dir: dir}
	if err := m.Change(files); err != nil {
		return nil, err
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), m.Path(name)); err != nil {
			return nil, fmt.Errorf("cannot mount files: %w", err)
		}
	}
	return m, nil
}

// Path is where a file is found, whatever it holds.
func (m *Mounted) Path(name string) string { return filepath.Join(m.dir, name) }

// Change puts other files in the place of all.
func (m *Mounted) Change(files map[string][]byte) error {
	m.round++
	folder := fmt.Sprintf("..round-%d", m.round)
	if err := os.Mkdir(m.Path(folder), 0o755); err != nil {
		return fmt.Errorf("cannot change files: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(m.Path(filepath.Join(folder, name)), content, 0o600); err != nil {
			return fmt.Errorf("cannot change files: %w", err)
		}
	}
	if err := os.Symlink(folder, m.Path("..next")); err != nil {
		return fmt.Errorf("cannot change files: %w", err)
	}
	if err := os.Rename(m.Path("..next"), m.Path("..data")); err != nil {
		return fmt.Errorf("cannot change files: %w", err)
	}
	return nil
}
