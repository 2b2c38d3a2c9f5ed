"""CustomResourceDefinitions of MetalLB and OpenELB, and their installation."""
