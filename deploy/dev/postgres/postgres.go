package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// owner is the user that Debian's package makes. PostgreSQL refuses to run as root.
	owner = "postgres"
	// role is Temporal's role in the database; it may make databases.
	role = "temporal"
)

// Server is the server of one folder.
type Server struct {
	// Dir has its data and its socket; only root and its user can read it.
	Dir string
	// Installed has one folder for each installed version of PostgreSQL; empty for Debian's.
	Installed string
}

// Socket is the folder of the socket.
func (s Server) Socket() string { return filepath.Join(s.Dir, "socket") }

func (s Server) data() string { return filepath.Join(s.Dir, "data") }

// Exists reports whether there is data.
func (s Server) Exists() bool {
	_, err := os.Stat(s.data())
	return err == nil
}

// Args are the command that runs the server. Prepare comes first.
func (s Server) Args() ([]string, error) {
	program, err := s.program("postgres")
	if err != nil {
		return nil, err
	}
	return s.asOwner(program, "-D", s.data(), "-k", s.Socket(), "-c", "listen_addresses=",
		// Temporal's four services have up to 20 connections each for histories, and 20 for visibility.
		"-c", "max_connections=200",
	), nil
}

// asOwner is a command run as the database's user; as the caller, where that is not root.
func (s Server) asOwner(args ...string) []string {
	if os.Geteuid() != 0 {
		return args
	}
	return append([]string{"setpriv", "--reuid", owner, "--regid", owner, "--clear-groups"}, args...)
}

// Prepare makes the folder and an empty database, unless they are there. The data appears complete or not at all.
func (s Server) Prepare(ctx context.Context) error {
	for _, dir := range []string{s.Dir, s.Socket()} {
		if err := s.makeOwn(dir); err != nil {
			return err
		}
	}
	if s.Exists() {
		return nil
	}
	program, err := s.program("initdb")
	if err != nil {
		return err
	}
	partial := s.data() + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("clear what a killed start left: %w", err)
	}
	args := s.asOwner(program, "-D", partial, "--username", role, "--encoding", "UTF8", "--locale", "C", "--auth",
		"peer", "--no-instructions")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = s.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make an empty database: %w: %s", err, strings.TrimSpace(string(out)))
	}
	me, err := user.Current()
	if err != nil {
		return fmt.Errorf("find out who Temporal runs as: %w", err)
	}
	// The kernel says who is at the other end of the socket: no password is needed.
	for name, text := range map[string]string{
		"pg_hba.conf":   "local all " + role + " peer map=virtflow\n",
		"pg_ident.conf": "virtflow " + me.Username + " " + role + "\n",
	} {
		// The file is there, and stays its owner's.
		if err := os.WriteFile(filepath.Join(partial, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("say who may use the database: %w", err)
		}
	}
	if err := os.Rename(partial, s.data()); err != nil {
		return fmt.Errorf("put the finished database in its place: %w", err)
	}
	return nil
}

// makeOwn makes a folder that only the database's user and root may enter.
func (s Server) makeOwn(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make PostgreSQL's folder: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(owner)
	if err != nil {
		return fmt.Errorf("find PostgreSQL's user: %w", err)
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if err := errors.Join(uidErr, gidErr, os.Chown(dir, uid, gid)); err != nil {
		return fmt.Errorf("give %s to %s: %w", dir, owner, err)
	}
	return nil
}

// Ready returns an error until the server accepts connections.
func (s Server) Ready(ctx context.Context) error {
	program, err := s.program("pg_isready")
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, program, "-h", s.Socket(), "-d", "postgres", "-U", role).
		CombinedOutput(); err != nil {
		return fmt.Errorf("ask PostgreSQL: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// program is one of PostgreSQL's, of the version that made the data, or of the newest one.
func (s Server) program(name string) (string, error) {
	installed := s.Installed
	if installed == "" {
		installed = "/usr/lib/postgresql"
	}
	made, err := os.ReadFile(filepath.Join(s.data(), "PG_VERSION"))
	if err == nil {
		version := strings.TrimSpace(string(made))
		program := filepath.Join(installed, version, "bin", name)
		if _, err := os.Stat(program); err != nil {
			return "", fmt.Errorf("the data in %s is that of PostgreSQL %s, which is not installed: %w", s.data(),
				version, err)
		}
		return program, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read whose data it is: %w", err)
	}
	found, _ := filepath.Glob(filepath.Join(installed, "*", "bin", name)) // the pattern is right
	if len(found) == 0 {
		return "", fmt.Errorf("there is no %s beneath %s: install Debian's package postgresql", name, installed)
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

// version returns VERSION of .../VERSION/bin/PROGRAM.
func version(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program))))
	return n
}
