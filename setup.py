"""The package's metadata."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = next(
    line.split('"')[1]
    for line in (HERE / "dgl_lc" / "__init__.py").read_text().splitlines()
    if line.startswith("__version__")
)

setup(
    name="dgl-lc",
    version=VERSION,
    description="Graph neural networks that train like an MLP, on graphs "
    "that fit neither on the GPU nor in memory: a plugin for DGL",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    # The addresses of the repository and of the site go here as well, once
    # they exist: see the list for releases in CONTRIBUTING.md.
    project_urls={
        "Paper": "https://arxiv.org/abs/2207.12000",
        "DGL": "https://www.dgl.ai",
    },
    keywords=[
        "graph neural networks",
        "DGL",
        "precomputation",
        "scalability",
        "node classification",
        "SIGN",
        "SGC",
    ],
    license="Apache-2.0",
    license_files=["LICENSE"],
    packages=find_packages(include=["dgl_lc", "dgl_lc.*"]),
    package_data={"dgl_lc": ["py.typed"]},
    python_requires=">=3.10",
    install_requires=[
        # DGL 2.1.0 was built for torch up to 2.2.1. DGL 1.1.3 runs on any
        # torch, but PyPI has it only up to Python 3.11.
        "dgl>=1.1.3,!=2.1.0; python_version < '3.12'",
        "dgl>=2.1.0; python_version >= '3.12'",
        "torch>=2.2.1",
        "numpy>=1.26",
        "matplotlib>=3.8",
        "numba>=0.60",
        "ogb>=1.3.6",
        "optuna>=3.5",
        "pandas>=2.0",
        "psutil>=5.8",
        # Metrics of the validation.
        "scikit-learn>=1.4",
        "tqdm>=4.60",
        # DGL imports it, but does not list it among its requirements.
        "packaging",
    ],
    extras_require={
        "dev": [
            "build",
            "codespell",
            "hypothesis",
            "import-linter",
            "mypy",
            "onnx>=1.17",
            "onnxruntime>=1.20",
            "onnxscript>=0.5",
            "pyarrow>=14",
            "pre-commit",
            "pytest",
            "pytest-cov",
            "pytest-timeout",
            "pytest-xdist",
            "ruff",
            "scipy",
            # DGL's formatter, for what can be contributed to DGL.
            "black==22.10.0",
            "ufmt==2.0.1",
            "usort==1.0.5",
            # The tests run the GPU kernel in Triton's interpreter.
            "triton; platform_system == 'Linux' "
            "and platform_machine == 'x86_64'",
        ],
        "bench": ["scipy", "torch_geometric"],
        # Builds the site; pyarrow is for its tutorials.
        "docs": [
            "furo",
            "myst-parser",
            "pillow",
            "pyarrow>=14",
            "sphinx>=9",
            "sphinx-copybutton",
            "sphinx-gallery",
        ],
        # Exports LC versions to ONNX, and runs them.
        "export": ["onnx>=1.17", "onnxruntime>=1.20", "onnxscript>=0.5"],
        # Reads csv and parquet files in dgl_lc.data.prepare.
        "tables": ["pyarrow>=14"],
    },
    entry_points={"console_scripts": ["dgl-lc = dgl_lc.cli:main"]},
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
