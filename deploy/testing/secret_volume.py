"""Volumes of secrets, as the kubelet lays them into a pod and replaces them."""

import os
import shutil


class SecretVolume:
    """A folder with the files of a projected volume's secrets.

    As in a pod its entries are links through `..data`, so that an update shows all
    new files at once.
    """

    def __init__(self, volume, secrets, folder):
        """`volume` is one of a pod's spec; `secrets` has a folder for each name."""
        self._sources = [source["secret"]
                         for source in volume["projected"]["sources"]]
        self._secrets = secrets
        self._updates = 0
        self.folder = folder
        os.mkdir(folder)
        self.update()

    def update(self):
        """Takes what the secrets contain now."""
        self._updates += 1
        data = f"..{self._updates}"
        for secret in self._sources:
            for item in secret["items"]:
                target = os.path.join(self.folder, data, item["path"])
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy(os.path.join(self._secrets[secret["name"]],
                                         item["key"]), target)
        for name in os.listdir(os.path.join(self.folder, data)):
            link = os.path.join(self.folder, name)
            if not os.path.islink(link):
                os.symlink(os.path.join("..data", name), link)
        fresh = os.path.join(self.folder, "..data_tmp")
        os.symlink(data, fresh)
        os.rename(fresh, os.path.join(self.folder, "..data"))
        shutil.rmtree(os.path.join(self.folder, f"..{self._updates - 1}"),
                      ignore_errors=True)
