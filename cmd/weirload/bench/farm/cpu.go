package farm

import "time"

// task is a job for a core. begin does what is done, as far as the core's state goes, and returns
// how long the core needs for it; finish is called when it has.
type task interface {
	begin() time.Duration
	finish()
}

// cpu is the cores of one machine. They take tasks in the order in which these came.
type cpu struct {
	clock   *clock
	idle    []*core
	waiting queue[task]
	busy    time.Duration // of all cores
}

// core is one of them, with what it does.
type core struct {
	cpu  *cpu
	task task
}

func newCPU(c *clock, cores int) *cpu {
	p := &cpu{clock: c}
	for range cores {
		p.idle = append(p.idle, &core{cpu: p})
	}
	return p
}

// submit has a task done when a core is free.
func (p *cpu) submit(t task) {
	last := len(p.idle) - 1
	if last < 0 {
		p.waiting.push(t)
		return
	}
	c := p.idle[last]
	p.idle = p.idle[:last]
	c.start(t)
}

func (c *core) start(t task) {
	c.task = t
	cost := t.begin()
	c.cpu.busy += cost
	c.cpu.clock.at(c.cpu.clock.now+cost, c)
}

// act ends the task, and starts the next.
func (c *core) act() {
	t := c.task
	c.task = nil
	t.finish()
	if c.cpu.waiting.len() == 0 {
		c.cpu.idle = append(c.cpu.idle, c)
		return
	}
	c.start(c.cpu.waiting.pop())
}
