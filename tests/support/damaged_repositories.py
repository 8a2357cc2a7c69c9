"""Every damage to the shipped repository by its name."""

from damaged_endcap_models import POSTPROCESS, PREPROCESS
from damaged_ensembles import DETECT
from damaged_networks import DETECTOR
from damaged_python_models import PYTHON

DAMAGES = {**PREPROCESS, **POSTPROCESS, **DETECTOR, **DETECT, **PYTHON}
