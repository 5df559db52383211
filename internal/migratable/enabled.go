package migratable

// Enabled says whether this build moves guests. Without it no instance is migratable, and migrations are refused.
const Enabled = true
