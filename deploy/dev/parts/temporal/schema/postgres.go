package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql" // the server's plugin
	"go.temporal.io/server/tools/common/schema"
	tools "go.temporal.io/server/tools/sql"
)

// maintenance is the database that every PostgreSQL server has.
const maintenance = "postgres"

// EnsurePostgres makes the database with the tables of the running server's version, or updates those of an earlier
// version, by the server's own versioned schema. A new database appears complete or not at all, even if this is killed.
// An update that was killed continues where it stopped.
func EnsurePostgres(ctx context.Context, cfg config.SQL, visibility bool) error {
	directory := "postgresql/v12/temporal"
	if visibility {
		directory = "postgresql/v12/visibility"
	}
	name := cfg.DatabaseName
	exists, err := exists(ctx, cfg)
	if err != nil {
		return err
	}
	if exists {
		return inDatabase(cfg, name, func(db *tools.Connection) error { return update(db, name, directory) })
	}
	partial := name + "_partial"
	return inDatabase(cfg, maintenance, func(db *tools.Connection) error {
		if err := db.Exec(fmt.Sprintf("DROP DATABASE IF EXISTS %q", partial)); err != nil {
			return fmt.Errorf("removing what a killed start left: %w", err)
		}
		if err := db.CreateDatabase(partial); err != nil {
			return fmt.Errorf("making the database %s: %w", name, err)
		}
		err := inDatabase(cfg, partial, func(db *tools.Connection) error {
			setup := schema.SetupConfig{InitialVersion: "0.0"}
			if err := schema.NewSetupSchemaTask(db, &setup, log.NewNoopLogger()).Run(); err != nil {
				return fmt.Errorf("making the tables of %s: %w", name, err)
			}
			if err := update(db, partial, directory); err != nil {
				return err
			}
			// The version stands under the database's name.
			return db.Exec("UPDATE schema_version SET db_name = $1", name)
		})
		if err != nil {
			return err
		}
		if err := db.Exec(fmt.Sprintf("ALTER DATABASE %q RENAME TO %q", partial, name)); err != nil {
			return fmt.Errorf("making the database %s: %w", name, err)
		}
		return nil
	})
}

// exists returns whether the server has the database: the server's own tools cannot report it.
func exists(ctx context.Context, cfg config.SQL) (found bool, err error) {
	db, err := sql.Open("pgx",
		fmt.Sprintf("host='%s' user='%s' dbname=%s", cfg.ConnectAttributes["host"], cfg.User, maintenance))
	if err != nil {
		return false, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", cfg.DatabaseName).
		Scan(&found); err != nil {
		return false, fmt.Errorf("asking PostgreSQL for its databases: %w", err)
	}
	return found, nil
}

// update applies the versions of the schema that the database lacks.
func update(db *tools.Connection, name, directory string) error {
	if err := schema.NewUpdateSchemaTask(db, &schema.UpdateConfig{DBName: name, SchemaName: directory},
		log.NewNoopLogger()).Run(); err != nil {
		return fmt.Errorf("bringing the tables of %s up to date: %w", name, err)
	}
	return nil
}

func inDatabase(cfg config.SQL, name string, do func(*tools.Connection) error) error {
	cfg.DatabaseName = name
	db, err := tools.NewConnection(&cfg, log.NewNoopLogger())
	if err != nil {
		return fmt.Errorf("connecting to PostgreSQL's database %s: %w", name, err)
	}
	defer db.Close()
	return do(db)
}
