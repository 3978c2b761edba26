import unittest

import basket


class Basket(unittest.TestCase):
    def test_an_empty_basket_costs_nothing(self):
        self.assertEqual(basket.total([]), 0)

    def test_prices_add_up(self):
        self.assertEqual(basket.total([100, 250]), 350)

    def test_no_discount_changes_nothing(self):
        self.assertEqual(basket.discounted(1000, 0), 1000)

    def test_a_discount_is_taken_off(self):
        self.assertEqual(basket.discounted(1000, 10), 900)

    def test_large_orders_are_shipped_for_nothing(self):
        self.assertEqual(basket.shipping(5000), 0)

    def test_small_orders_are_not(self):
        self.assertEqual(basket.shipping(4999), 499)

    def test_what_is_due_is_the_discounted_sum_and_shipping(self):
        self.assertEqual(basket.due([1000, 1000], 50), 1499)
