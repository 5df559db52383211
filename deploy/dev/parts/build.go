package parts

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Builder builds parts into a cache.
type Builder struct {
	// Repo is the checkout.
	Repo string
	// Cache is the folder that has one folder per finished part.
	Cache string
	// Out receives messages about the progress.
	Out io.Writer
}

// Folder is where the part lies once it is built.
func (b Builder) Folder(p Part) (string, error) {
	key, err := p.Key(b.Repo)
	if err != nil {
		return "", err
	}
	return filepath.Join(b.Cache, p.Name+"-"+key), nil
}

// EnsureAll builds the parts that are not there, one after the other, and returns their folders in the same order.
// While one compiles, the modules of the next are fetched.
func (b Builder) EnsureAll(ctx context.Context, all []Part) ([]string, error) {
	missing, _, err := b.Missing(all)
	if err != nil {
		return nil, err
	}
	next := map[string]Part{}
	for i := 1; i < len(missing); i++ {
		next[missing[i-1].Name] = missing[i]
	}
	folders := make([]string, len(all))
	for i, p := range all {
		fetching, cancel := context.WithCancel(ctx)
		var fetch sync.WaitGroup
		if after, ok := next[p.Name]; ok {
			fetch.Go(func() { b.fetch(fetching, after) })
		}
		folders[i], err = b.Ensure(ctx, p)
		cancel() // what is not fetched by now, the build of the next part fetches
		fetch.Wait()
		if err != nil {
			return nil, err
		}
	}
	return folders, nil
}

// fetch downloads the modules that the part's build reads. A failure does no harm: the build downloads them again, and
// reports why it cannot.
func (b Builder) fetch(ctx context.Context, p Part) {
	if p.Dir == "" {
		return // the module of an installed command is fetched by its build
	}
	args := []string{"list", "-deps", "-test=" + strconv.FormatBool(p.Test)}
	if p.Tags != "" {
		args = append(args, "-tags", p.Tags)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, p.Packages...)...)
	cmd.Dir = filepath.Join(b.Repo, p.Dir)
	cmd.Env = p.environment()
	_ = cmd.Run()
}

// Ensure builds the part unless it exists, and returns its folder. Two concurrent runs build one after the other: two
// cores are not enough for both.
func (b Builder) Ensure(ctx context.Context, p Part) (string, error) {
	folder, err := b.Folder(p)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	unlock, err := b.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(folder); err == nil {
		return folder, nil // the other run built it
	}
	return folder, b.build(ctx, p, folder)
}

// lock takes the lock of the cache; the kernel drops it when the process ends, however it ends.
func (b Builder) lock() (func(), error) {
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(b.Cache, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the cache: %w", err)
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		fmt.Fprintln(b.Out, "Another run is building; waiting for it.")
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, fmt.Errorf("take the lock of the cache: %w", err)
		}
	}
	return func() { _ = f.Close() }, nil
}

func (b Builder) build(ctx context.Context, p Part, folder string) error {
	work := folder + ".partial"
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("clear what an interrupted build left: %w", err)
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fmt.Errorf("make the build folder: %w", err)
	}
	log := filepath.Join(b.Cache, p.Name+".log")
	fmt.Fprintf(b.Out, "Building %s. Once per version; about %s here when nothing is compiled yet. Log: %s\n",
		p.What, Scale(p.Cold, runtime.NumCPU()), log)
	start := time.Now()

	cmd := exec.CommandContext(ctx, "go", p.arguments(work)...)
	cmd.Dir = filepath.Join(b.Repo, p.Dir)
	if p.Dir == "" {
		cmd.Dir = os.TempDir() // outside any module
	}
	cmd.Env = append(append(p.environment(), "GOBIN="+work), CompilerEnvironment()...)
	if err := b.runWithProgress(cmd, p, log); err != nil {
		return err
	}
	if err := os.Rename(work, folder); err != nil {
		return fmt.Errorf("put the finished part into the cache: %w", err)
	}
	fmt.Fprintf(b.Out, "Built %s in %s.\n", p.Name, time.Since(start).Round(time.Second))
	return nil
}

// environment returns the environment of the go command for the part.
func (p Part) environment() []string {
	cgo := "0"
	if p.Cgo {
		cgo = "1"
	}
	return append(os.Environ(), "CGO_ENABLED="+cgo, "GOTOOLCHAIN=local", "GOFLAGS=", "GOWORK=off",
		// The cache key does not cover the environment's C settings (CC, CGO_*), so they are fixed here.
		"CC=gcc", "CGO_CPPFLAGS=", "CGO_CFLAGS=", "CGO_LDFLAGS=")
}

// runWithProgress runs the build, its words in the log file, and says from time to time how far it is.
func (b Builder) runWithProgress(cmd *exec.Cmd, p Part, log string) error {
	out, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("open the build log: %w", err)
	}
	defer out.Close()
	progress := &lineCounter{to: out}
	cmd.Stdout, cmd.Stderr = progress, progress
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the build of %s: %w", p.Name, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("build %s: %w; the end of %s:\n%s", p.Name, err, log, tail(log, 15))
			}
			return nil
		case <-tick.C:
			fmt.Fprintf(b.Out, "  %s: %s%s\n", p.Name, time.Since(start).Round(time.Second), progress)
		}
	}
}

// lineCounter counts the lines that pass and keeps the last one.
type lineCounter struct {
	to   io.Writer
	mu   sync.Mutex
	n    int
	last string
}

func (c *lineCounter) Write(data []byte) (int, error) {
	c.mu.Lock()
	c.n += bytes.Count(data, []byte("\n"))
	if lines := strings.Fields(string(data)); len(lines) > 0 {
		c.last = lines[len(lines)-1]
	}
	c.mu.Unlock()
	return c.to.Write(data)
}

// String returns how far a build is that prints a line for each package; "": it prints none.
func (c *lineCounter) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d packages compiled, now at %s", c.n, c.last)
}

// tail is the last lines of a file, indented.
func tail(path string, n int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, "  "+s.Text())
		if len(lines) > n {
			lines = lines[1:]
		}
	}
	return strings.Join(lines, "\n")
}
