package main

import (
	"bufio"
	"fmt"
	"strings"
	"time"
)

// progress is a bar on the terminal. It is not shown elsewhere.
type progress struct {
	out   *bufio.Writer
	width int
	total int64 // 0: unknown
	now   func() time.Time
	start time.Time
	drawn time.Time
	shown bool
}

const (
	// progressInterval is how often the bar is drawn.
	progressInterval = 100 * time.Millisecond
	barWidth         = 24
)

func (s *session) newProgress(total int64) *progress {
	p := &progress{out: s.out, total: total, now: s.now, start: s.now()}
	if s.interactive {
		p.width = s.width()
	}
	p.drawn = p.start
	return p
}

// elapsed returns the time since the start.
func (p *progress) elapsed() time.Duration { return p.now().Sub(p.start) }

// update draws the bar, if it is time to.
func (p *progress) update(done, messages int64) {
	if p.width == 0 {
		return
	}
	now := p.now()
	if now.Sub(p.drawn) < progressInterval {
		return
	}
	p.drawn, p.shown = now, true
	// \x1b[K clears what a longer line left behind.
	fmt.Fprintf(p.out, "\r%s\x1b[K", truncate(p.line(done, messages), p.width-1))
	_ = p.out.Flush() // the command's own flush reports an error
}

func (p *progress) line(done, messages int64) string {
	elapsed := p.elapsed()
	rate := float64(done) / max(elapsed.Seconds(), 0.001)
	text := fmt.Sprintf("%s messages  %s/s", grouped(messages), byteSize(int64(rate)))
	if p.total == 0 {
		return text
	}
	share := min(1, float64(done)/float64(p.total))
	full := int(share * barWidth)
	left := time.Duration(float64(elapsed) * (1/max(share, 1e-6) - 1)).Round(time.Second)
	return fmt.Sprintf("%3.0f%% [%s%s] %s  %s left", 100*share,
		strings.Repeat("#", full), strings.Repeat(".", barWidth-full), text, left)
}

// close removes the bar.
func (p *progress) close() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}
