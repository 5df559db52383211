package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// maxAge is the oldest age of package lists that are used. A mirror keeps superseded packages for about that long.
const maxAge = 24 * time.Hour

// ErrOutdated means that the mirror no longer has the packages that were resolved. The lists have been refreshed:
// resolving again returns others. See Again.
var ErrOutdated = errors.New("the package lists were outdated")

// Again calls do, and once more when it fails with ErrOutdated: do resolves the packages that it fetches.
func Again(do func() error) error {
	err := do()
	if errors.Is(err, ErrOutdated) {
		return do()
	}
	return err
}

// Lists has the package lists of the machine or of a release. It is safe for concurrent use.
type Lists struct {
	log     zerolog.Logger
	release *release // nil: the machine's own
	mu      sync.Mutex
	tried   bool // a refresh that failed is not tried again before each step
}

// NewLists returns the package lists of the machine; nothing happens yet.
func NewLists(log zerolog.Logger) *Lists { return &Lists{log: log} }

// apt runs one of apt's commands on these lists.
func (l *Lists) apt(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	return run(ctx, dir, name, append(l.release.options(), args...)...)
}

// Use calls a function that needs package lists which are not stale. If it fails, the mirror may have changed since:
// Use then refreshes the lists and calls it once more.
func (l *Lists) Use(ctx context.Context, do func() error) error {
	if err := l.release.prepare(ctx); err != nil {
		return err
	}
	l.refreshStale(ctx)
	err := do()
	if err == nil || ctx.Err() != nil {
		return err
	}
	l.log.Warn().Err(err).Msg("failed with apt's package lists, refreshing them")
	l.Refresh(ctx)
	return do()
}

// Refresh updates the package lists. It only warns when that fails: other sources of the machine may be unreachable,
// and old lists are better than none.
func (l *Lists) Refresh(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(ctx)
}

func (l *Lists) refreshStale(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dir, err := l.folder(ctx)
	if err != nil {
		l.log.Warn().Err(err).Msg("failed to determine age of apt's package lists")
		return
	}
	if why := stale(dir, time.Now()); why != "" && !l.tried {
		l.log.Info().Str("reason", why).Msg("refreshing apt's package lists")
		l.refresh(ctx)
	}
}

func (l *Lists) refresh(ctx context.Context) {
	l.tried = true
	// A source that fails otherwise counts as a warning, and the lists as refreshed.
	if _, err := l.apt(ctx, "", "apt-get", "update", "-q", "-o", lockWait, "-o",
		"APT::Update::Error-Mode=any"); err != nil {
		l.log.Warn().Err(err).Msg("failed to update all of apt's package lists")
		return
	}
	// apt leaves the folder as it is where no list has changed.
	if dir, err := l.folder(ctx); err == nil {
		_ = os.Chtimes(dir, time.Time{}, time.Now()) // at worst they are refreshed once more
	}
}

// stale returns why the lists in a folder must be refreshed; "" if they need not be.
func stale(dir string, now time.Time) string {
	lists, err := filepath.Glob(filepath.Join(dir, "*_Packages*"))
	if err != nil || len(lists) == 0 {
		return "there are none"
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "they cannot be read"
	}
	if age := now.Sub(info.ModTime()); age > maxAge {
		return fmt.Sprintf("they are %d hours old", int(age.Hours()))
	}
	return ""
}

// folder returns the folder of apt's package lists.
func (l *Lists) folder(ctx context.Context) (string, error) {
	out, err := l.apt(ctx, "", "apt-config", "shell", "LISTS", "Dir::State::lists/d")
	if err != nil {
		return "", err
	}
	dir := strings.Trim(strings.TrimPrefix(strings.TrimSpace(string(out)), "LISTS="), "'")
	if dir == "" {
		return "", errors.New("apt-config names no folder of package lists")
	}
	return dir, nil
}
