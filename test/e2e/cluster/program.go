package cluster

// Program is a program that runs beside the control plane. Like those of the
// control plane it ends with this process.
type Program struct{ p *process }

// StartProgram starts a program whose output goes to a log file, which is appended
// to. It leads a process group of its own.
func StartProgram(name, path, log string, args ...string) (*Program, error) {
	p, err := start(name, path, log, false, args...)
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Pid is its process id.
func (p *Program) Pid() int { return p.p.cmd.Process.Pid }

// Alive tells whether it still runs.
func (p *Program) Alive() bool { return p.p.alive() }

// Kill ends it and what it started at once.
func (p *Program) Kill() { p.p.kill() }
