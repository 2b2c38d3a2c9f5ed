"""Controllers for PersistentVolumes and PersistentVolumeClaims.

- `binder` binds claims to volumes; `matching` and `binding_plan` decide.
- `protection` keeps claims and volumes that are used; `volumes_in_use` decides.
- `ephemeral` creates the claims of pods' ephemeral volumes.
- `host_path` provisions directories of nodes; `host_path_plan` decides.
- `finalizers` removes finalizers, for all of them.
"""
