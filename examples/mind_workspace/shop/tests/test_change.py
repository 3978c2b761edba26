import unittest

import change


class Change(unittest.TestCase):
    def test_exact_payment_gives_nothing_back(self):
        self.assertEqual(change.change(350, 350), [])

    def test_one_coin_is_enough_where_there_is_one(self):
        self.assertEqual(change.change(400, 350), [50])

    def test_large_coins_come_first(self):
        self.assertEqual(change.change(1000, 663), [200, 100, 20, 10, 5, 2])
