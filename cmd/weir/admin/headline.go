package admin

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// State is how good or bad something is, for its colour.
type State string

// In this order: nothing is to be done; something is to be looked at; clients are affected, or will
// be.
const (
	Good State = "good"
	Warn State = "warn"
	Bad  State = "bad"
)

// Finding is one thing that is wrong. Link is the view of the page that has more.
type Finding struct {
	State State  `json:"state"`
	Text  string `json:"text"`
	Link  string `json:"link,omitempty"`
}

const (
	// lagNoted is from which lag on a client is named.
	lagNoted = 10 * time.Second
	// certificateSoon is how long before its end a certificate is named.
	certificateSoon = 3 * 24 * time.Hour
	// youngFor is how long a client is new, and stormClients how many new ones are a storm.
	youngFor     = time.Minute
	stormClients = 20
	// stormEnds is how many streams that end within youngFor are a storm, and stormTimes how many
	// times the number of clients, as in the alert WeirReconnectStorm.
	stormEnds, stormTimes = 100, 3
	// headlineText bounds texts of peers in a sentence, in bytes.
	headlineText = 160
)

// Headline says in one sentence how a weir stands: what is wrong first, or that all is well.
func Headline(o *Overview) (sentence string, state State) {
	if all := o.findings(); len(all) > 0 {
		return all[0].Text, all[0].State
	}
	origins := Plural(len(o.Origins), "origin")
	switch {
	case o.Clients == 0:
		return "No client is connected; " + origins + " configured.", Good
	case o.Unsynced > 0 && o.Clients == 1:
		return "The only client is being sent the newest configuration of " + origins + ".", Good
	case o.Unsynced > 0:
		return fmt.Sprintf("%d of %s have the newest configuration of %s; weir is sending it to %d.", o.Clients-o.Unsynced, Plural(o.Clients, "client"), origins, o.Unsynced), Good
	case o.Clients == 1:
		return "The only client has the newest configuration of " + origins + ".", Good
	}
	return fmt.Sprintf("All %d clients have the newest configuration of %s.", o.Clients, origins), Good
}

// findings are what is wrong, the worst first, and candidates that are tried.
func (o *Overview) findings() []Finding {
	all := []Finding{}
	add := func(state State, link, format string, args ...any) {
		all = append(all, Finding{state, fmt.Sprintf(format, args...), link})
	}
	o.process(add)
	for i := range o.Origins {
		o.Origins[i].lost(add)
	}
	for i := range o.Origins {
		o.Origins[i].refused(add)
	}
	o.kept(add)
	o.rejects(add)
	for i := range o.Origins {
		o.Origins[i].slow(add)
	}
	o.stuck(add)
	o.storm(add)
	o.files(add)
	for i := range o.Origins {
		o.Origins[i].timedOut(o.At, add)
		o.Origins[i].bakes(o.At, add)
	}
	return all
}

type adder func(state State, link, format string, args ...any)

// process adds what is wrong with the whole process.
func (o *Overview) process(add adder) {
	switch r := &o.Ready; {
	case r.State == "draining":
		add(Bad, "#/config", "Draining: clients are sent to other replicas, and none is admitted.")
	case !r.Ready && r.Why != "":
		add(Bad, "#/config", "Not ready (%s): %s%s.", r.State, r.Why, o.silences())
	case !r.Ready:
		add(Bad, "#/config", "Not ready: %s.", r.State)
	}
	if c := &o.Config; !c.Refused.IsZero() {
		why := ""
		if len(c.Problems) > 0 {
			why = ": " + short(c.Problems[0])
		}
		when, stays := "at "+clock(c.Refused), "The one before it stays in force."
		if c.LastGood != "" {
			when, stays = "at the start and since", fmt.Sprintf("The one accepted last, at %s, is in force.", clock(c.Accepted))
		}
		add(Bad, "#/config", "The configuration file was refused %s%s. %s", when, why, stays)
	}
}

// lost adds that the origin is away, or does not answer.
func (o *OriginOverview) lost(add adder) {
	if !o.away() {
		return
	}
	text := fmt.Sprintf("Origin %s has never answered", o.Name)
	if o.Stale > 0 { // restored: an earlier process was answered
		text = fmt.Sprintf("Origin %s has not answered since weir started", o.Name)
	}
	switch {
	case o.Kind == "files":
		text = fmt.Sprintf("Origin %s: the files cannot be used since %s", o.Name, clock(cmp.Or(o.ErrorAt, o.Since)))
	case o.Reached && !o.Since.IsZero():
		text = fmt.Sprintf("Origin %s has been away since %s", o.Name, clock(o.Since))
	case !o.Since.IsZero():
		text += ", asked since " + clock(o.Since)
	}
	switch {
	case len(o.Silent) > 0:
		text += ": " + o.silence()
	case o.Error != "":
		text += ": " + short(Cause(o.Error))
	}
	switch {
	case o.Fallback != nil && o.Fallback.Serving > 0:
		text += fmt.Sprintf("; weir serves %s of its fallback", Plural(o.Fallback.Serving, "resource"))
	case o.Kind == "files" && o.Resources > 0:
		text += "; clients keep what was read before"
	case o.Stale > 0:
		text += fmt.Sprintf("; clients keep %s that may be old", Plural(o.Stale, "resource"))
	}
	add(Bad, originLink(o.Name), "%s.", text)
}

// refused adds what is wrong with an origin that is there: files, types that it ends streams for.
func (o *OriginOverview) refused(add adder) {
	link := originLink(o.Name)
	if !o.away() && o.Error != "" {
		add(Warn, link, "Origin %s: %s.", o.Name, short(Cause(o.Error)))
	}
	for _, f := range o.Files {
		if f.Error != "" && f.Error != o.Error {
			add(Warn, link, "Origin %s: a file is refused since %s: %s; its earlier content stays.", o.Name, clock(f.ErrorAt), short(f.Error))
			break
		}
	}
	if len(o.Quarantined) > 0 {
		q := &o.Quarantined[0]
		add(Warn, link, "Origin %s ends streams that ask for %s, since %s: %s.", o.Name, q.Type, clock(q.Since), short(Cause(q.Reason)))
	}
}

// silences says which origin that was not reached yet does not answer.
func (o *Overview) silences() string {
	for i := range o.Origins {
		if x := &o.Origins[i]; !x.Reached && len(x.Silent) > 0 {
			return "; " + x.Name + ": " + x.silence()
		}
	}
	return ""
}

// silence says which node the origin does not answer.
func (o *OriginOverview) silence() string {
	s := &o.Silent[0]
	more := ""
	if n := o.SilentGroups - 1; n > 0 {
		more = " and those of " + Plural(n, "other group")
	}
	return fmt.Sprintf("it has not answered %s%s since %s: %s", s.Node(), more, clock(s.Since), s.Why())
}

// slow adds what the origin was asked for and has not answered, though it is there.
func (o *OriginOverview) slow(add adder) {
	if o.Queued > 0 && !o.away() {
		add(Warn, originLink(o.Name), "Origin %s: %s of %d wait for their turn to be opened (limits.new_groups_per_second).",
			o.Name, Plural(o.Queued, "stream"), o.Wanted)
	}
	if !o.away() && len(o.Silent) > 0 {
		add(Warn, originLink(o.Name), "Origin %s: %s.", o.Name, o.silence())
		return
	}
	if o.away() || len(o.Slow) == 0 {
		return
	}
	var types []string
	groups := 0
	for i := range o.Slow {
		types = append(types, o.Slow[i].Type)
		groups = max(groups, o.Slow[i].Groups)
	}
	what := types[0]
	if n := len(types) - 1; n > 0 {
		what = strings.Join(types[:n], ", ") + " and " + types[n]
	}
	verb := "wait"
	if groups == 1 {
		verb = "waits"
	}
	add(Warn, originLink(o.Name), "Origin %s is connected, and has not answered for %s since %s: it was asked, and %s %s.", o.Name, what, clock(o.Slow[0].Since), Plural(groups, "group"), verb)
}

// rejects adds what clients reject.
func (o *Overview) rejects(add adder) {
	if r := o.Rejected; o.Nacking > 0 && r != nil {
		what, verb := r.Type, "reject"
		if r.Resource != "" {
			what += " " + short(r.Resource)
		}
		if r.Clients == 1 {
			verb = "rejects"
		}
		others := ""
		if n := o.Nacking - r.Clients; n > 0 {
			others = fmt.Sprintf(". %d more %s something else.", n, several(n, "client rejects", "clients reject"))
		}
		// The message follows the clause that it belongs to.
		add(Bad, "#/nacks", "%s %s %s of %s: %s%s", Plural(r.Clients, "client"), verb, what, r.Origin, short(r.Message), others)
	}
}

// stuck adds who has waited for long.
func (o *Overview) stuck(add adder) {
	if w := o.Stuck; w != nil && o.At.Sub(w.Since) >= lagNoted {
		why := ""
		switch {
		case w.Unacknowledged:
			why = ": it has not acknowledged what it was sent"
		case w.Unanswered:
			why = ": the origin has not answered"
		}
		others := ""
		if n := o.Unsynced - o.Nacking - 1; n > 0 {
			others = fmt.Sprintf(" %d other %s as well.", n, several(n, "client waits", "clients wait"))
		}
		add(Warn, "#/clients?unsynced=1", "Client %s has not had the newest %s of %s since %s%s.%s", short(cmp.Or(w.NodeID, w.Peer)), w.Type, w.Origin, clock(w.Since), why, others)
	}
}

// storm adds that clients come again and again, or that most have come within a minute, though weir
// has not.
func (o *Overview) storm(add adder) {
	if o.Ended > stormEnds && o.Ended > stormTimes*o.Clients {
		add(Warn, "#/clients", "%s ended within the last minute, with %s connected: they reconnect again and again.", Plural(o.Ended, "client stream"), Plural(o.Clients, "client"))
	} else if o.Young >= stormClients && 2*o.Young >= o.Clients && o.At.Sub(o.Started) > 3*youngFor {
		add(Warn, "#/clients", "%d of %s came within the last minute: they come again and again, or a balancer has moved them.", o.Young, Plural(o.Clients, "client"))
	}
}

// files adds what is wrong with the disk, with certificates and with the memory.
func (o *Overview) files(add adder) {
	if s := o.Snapshot; s != nil && s.Error != "" {
		add(Warn, "#/config", "The snapshot is not written: %s.", short(s.Error))
	}
	byEnd := func(x, y string) int { return o.Certificates[x].Compare(o.Certificates[y]) }
	roles := slices.SortedFunc(maps.Keys(o.Certificates), byEnd)
	for _, role := range roles {
		switch ends := o.Certificates[role]; {
		case !ends.After(o.At):
			add(Bad, "#/config", "A certificate (%s) has expired at %s.", role, clock(ends))
		case ends.Sub(o.At) < certificateSoon:
			add(Warn, "#/config", "A certificate (%s) expires at %s.", role, clock(ends))
		}
	}
	if r := &o.Ready; r.Ready && r.Why != "" && !o.Memory.Short {
		add(Warn, "#/config", "Ready, but: %s.", r.Why)
	}
	if m := &o.Memory; m.Short {
		add(Warn, "#/charts", "Memory is short: %d of %d MiB are used, and names without subscribers are refused.", m.Used>>20, m.Limit>>20)
	}
}

func originLink(name string) string { return "#/origins/" + url.PathEscape(name) }

// several is the form of words that goes with a number.
func several(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// clock is a time as sentences have it.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// Cause is an error without what gRPC says around it.
func Cause(text string) string {
	if i := strings.LastIndex(text, "desc = "); i >= 0 {
		text = strings.Trim(text[i+len("desc = "):], `"`)
	}
	return strings.TrimPrefix(text, "transport: Error while dialing: ")
}

// short is a peer's text on one line, cut off if it is long.
func short(text string) string {
	text = strings.TrimRight(strings.Join(strings.Fields(text), " "), ".")
	if len(text) > headlineText {
		text = strings.ToValidUTF8(text[:headlineText], "") + " …"
	}
	return text
}
